//! The supervisor's work: it replaces the threads of demoted tasks, joins threads that have ended, and
//! shuts the executor down. Others only call it, and do not wait:
//!
//! 1. *No thread joins itself.* The supervisor joins all threads but its own, and runs no user's code. Its own
//!    is joined by the thread that drops the executor, unless that is one of the executor's threads (each knows by a
//!    thread-local pointer): then it is never joined.
//! 2. *A shutdown starts no thread.* The supervisor exists from the beginning.
//! 3. The work to do follows from the state that it reads: a thread that has ended, a demoted task, the
//!    shutdown. `calls` is advanced *after* that was written, and the supervisor reads it *before* the state;
//!    so it reads the state again, or its futex wait returns at once.

use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;
use std::time::Duration;

use coreshard_platform::{AtomicInt, LockedMemory, RealTime, ThreadSpec};

use super::shared::Shared;
use crate::error::RtError;

/// How soon it tries again: to start a thread that could not be had, and to see the last tasks finished.
const RETRY: Duration = Duration::from_millis(10);
const SHUTDOWN_POLL: Duration = Duration::from_millis(1);

/// Starts the supervisor, above or beside all tasks, as far as that is granted. The memory is unlocked at its end.
pub(super) fn start<P: RealTime>(
    shared: &Arc<Shared<P>>,
    memory: Option<LockedMemory>,
) -> Result<P::Thread, RtError> {
    let spec = ThreadSpec { name: "rt-supervisor".to_owned(), ..ThreadSpec::default() };
    let policy = shared.options.highest_policy::<P>();
    let shared = Arc::clone(shared);
    let body = move || {
        supervise(&shared);
        drop(memory);
    };
    Ok(P::spawn_as(spec, policy, Box::new(body))?)
}

fn supervise<P: RealTime>(shared: &Arc<Shared<P>>) {
    let supervisor = &shared.supervisor;
    let mut is_shutting_down = false;
    loop {
        let seen = supervisor.calls();
        supervisor.join_ended();
        let is_short = replace_threads(shared);
        let mut timeout = is_short.then_some(RETRY);
        if supervisor.ends() {
            if !is_shutting_down {
                begin_shutdown(shared);
                is_shutting_down = true;
            }
            if shared.task_counts.all_finished() {
                break;
            }
            timeout = Some(SHUTDOWN_POLL);
        }
        supervisor.wait_for_call(seen, timeout);
    }
    shared.ends.fetch_or(1, AcqRel);
    P::wake_all(&raw const shared.ends);
    shared.dispatcher.cpus().iter().for_each(|cpu| cpu.exit_threads());
    supervisor.join_all();
}

/// From here on nothing is accepted any more.
fn begin_shutdown<P: RealTime>(shared: &Shared<P>) {
    shared.timers.end();
    shared.periodics.stop();
    // What waits for a CPU that is offline gets it now.
    let positions = 0..shared.dispatcher.cpus().len();
    positions.for_each(|position| shared.dispatcher.bring_online(position));
}

/// Replaces each thread that runs a demoted task by a fresh one, so that its CPU goes on. True if
/// one cannot be had now.
fn replace_threads<P: RealTime>(shared: &Arc<Shared<P>>) -> bool {
    let mut is_short = false;
    for (position, cpu) in shared.dispatcher.cpus().iter().enumerate() {
        if !cpu.take_needs_supervisor() {
            continue;
        }
        loop {
            let Some((priority, id)) = cpu.lock_state().demoted() else { break };
            let Ok(fresh) = shared.new_thread(position, priority) else {
                cpu.keep_needs_supervisor();
                is_short = true;
                break;
            };
            cpu.replace_thread(priority, id, fresh);
        }
        shared.dispatcher.take_waiting(position);
    }
    is_short
}

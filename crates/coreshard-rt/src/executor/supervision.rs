//! The supervisor's work. It replaces the threads of demoted tasks, joins threads that have ended, and shuts
//! the executor down. Other threads only notify it, and do not wait:
//!
//! 1. *No thread joins itself.* The supervisor joins all threads but its own, and runs no user code. The
//!    thread that drops the executor joins the supervisor's, unless it is one of the executor's threads (each
//!    recognises that by a thread-local pointer). In that case the supervisor's thread is never joined.
//! 2. *A shutdown starts no thread.* The supervisor exists from the beginning.
//! 3. The work follows from the state that the supervisor reads: a thread that has ended, a demoted task, the
//!    shutdown. `calls` is advanced *after* the state was written, and the supervisor reads it *before* the
//!    state. So it either reads the state again, or its futex wait returns at once.

use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;
use std::time::Duration;

use coreshard_platform::{AtomicInt, LockedMemory, RealTime, ThreadSpec};

use super::shared::Shared;
use crate::error::RtError;

/// How soon it retries to start a thread, and checks again whether the last tasks have finished.
const RETRY: Duration = Duration::from_millis(10);
const SHUTDOWN_POLL: Duration = Duration::from_millis(1);

/// Starts the supervisor at the highest priority that is granted. It unlocks the memory at its end.
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

/// Stops accepting tasks.
fn begin_shutdown<P: RealTime>(shared: &Shared<P>) {
    shared.timers.end();
    shared.periodics.stop();
    // Tasks that wait for an offline CPU get it now.
    let positions = 0..shared.dispatcher.cpus().len();
    positions.for_each(|position| shared.dispatcher.bring_online(position));
}

/// Replaces each thread that runs a demoted task with a fresh one, so that its CPU continues. Returns true if
/// a thread cannot be started now.
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

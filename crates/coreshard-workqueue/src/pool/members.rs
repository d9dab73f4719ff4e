//! A team's workers are its members for as long as it lives, and no other worker replaces one.
//!
//! A member's index is fixed, and the work it runs sees that index. So another thread cannot run in its place while it
//! waits. A member that waits runs subtasks of the job it waits for, and its mail, and more as time goes by; `README.md` lists
//! what, and why.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, LocalKey, Platform, SpawnError, ThreadSpec, user};

use super::context::{Context, context_here};
use super::current::CurrentWorker;
use super::jobs::Frame;
use super::jobs::{ListedJob, Parts};
use super::pool::Pool;
use super::roster::{Blocked, ThreadSlot};
use super::set::PoolSet;
use super::start::refused;
use super::team::end_if_over;

/// The name of a member's thread.
pub(crate) type NameMember<'name> = &'name mut dyn FnMut(usize) -> Option<String>;

/// Gets a thread for a member. Arguments: its index, whether it has its own name, the thread's settings, and the body to run.
pub(crate) type StartMember<'start> = &'start mut dyn FnMut(
    usize,
    bool,
    ThreadSpec,
    Box<dyn FnOnce() + Send>,
) -> Result<(), SpawnError>;

/// State of a start that was given to the program.
const BEING_STARTED: u32 = 0;
/// It was accepted, and the member is expected.
const DUE: u32 = 1;
const CAME: u32 = 2;
/// The start was dropped: no thread runs it.
const DROPPED: u32 = 3;

/// Held in a member's body until that is called.
struct Coming<P: Platform> {
    pool: Arc<Pool<P>>,
    index: usize,
    is_due: Arc<P::AtomicU32>,
}

impl<P: Platform> Coming<P> {
    /// On its thread: counts the member among the running ones.
    fn comes(self) {
        self.is_due.store(CAME, Relaxed);
        self.pool.lock_state().set_blocked(self.index, Blocked::No);
    }
}

impl<P: Platform> Drop for Coming<P> {
    fn drop(&mut self) {
        // Relaxed: the lock orders what follows.
        let dropped = |before| self.is_due.compare_exchange(before, DROPPED, Relaxed, Relaxed);
        if dropped(BEING_STARTED).is_err() && dropped(DUE).is_ok() {
            never_comes(&self.pool, self.index);
        }
    }
}

/// Gives each member its slot, so that jobs can be sent to it before any member runs.
pub(super) fn make_room<P: Platform>(pool: &Pool<P>) {
    let _state = pool.lock_state();
    (0..pool.place.members.len()).for_each(|index| pool.slots.ensure(index));
}

impl<P: Platform> PoolSet<P> {
    /// Starts a team's members by index, each on a thread from `start` or from the platform.
    ///
    /// # Errors
    /// If a thread cannot be started; the others exit with the lease, and this thread does not become a member.
    pub(crate) fn man_team(
        &self,
        name_of: NameMember<'_>,
        mut start: Option<StartMember<'_>>,
    ) -> Result<(), SpawnError> {
        // A hook of the first member may send jobs to all.
        self.pools().for_each(|pool| make_room(pool));
        let start_all =
            || self.pools().try_for_each(|pool| start_members(pool, name_of, &mut start));
        // User code for names and starts may panic.
        let outcome = user::call(start_all);
        if !matches!(outcome, Ok(Ok(()))) {
            self.pools().for_each(lose_this_thread);
        }
        outcome.unwrap_or_else(|thrown| thrown.resume())
    }
}

pub(super) fn start_members<P: Platform>(
    pool: &Arc<Pool<P>>,
    name_of: NameMember<'_>,
    start: &mut Option<StartMember<'_>>,
) -> Result<(), SpawnError> {
    for member in pool.place.members.clone() {
        // User code: called before anything is reserved.
        let name = name_of(member).map(|name| name.replace('\0', ""));
        start_member(pool, member, name, start)?;
    }
    Ok(())
}

fn start_member<P: Platform>(
    pool: &Arc<Pool<P>>,
    member: usize,
    name: Option<String>,
    start: &mut Option<StartMember<'_>>,
) -> Result<(), SpawnError> {
    let index = {
        let mut state = pool.lock_state();
        let index = state.reserve_worker(pool);
        state.roster.starting += u16::from(index.is_some());
        if let Some(index) = index.filter(|_| start.is_some()) {
            // The program decides when the member starts: it does not run until then.
            state.set_blocked(index, Blocked::Declared);
        }
        index
    };
    let Some(index) = index else {
        return Err(refused(format!("member {member} of a team"), "a team"));
    };
    debug_assert_eq!(index, member - pool.place.members.start, "none has exited");
    if member == 0 && pool.team().is_some_and(|team| team.has_current_thread) {
        adopt_this_thread(pool);
        return Ok(());
    }
    let (has_name, mut thrown) = (name.is_some(), None);
    let is_due = Arc::new(P::AtomicU32::new(BEING_STARTED));
    let by = |spec, body| match start {
        None => P::spawn(spec, body).map(ThreadSlot::Here),
        Some(start) => {
            // User code: the reservation is released even if it panics.
            let coming = Coming { pool: Arc::clone(pool), index, is_due: Arc::clone(&is_due) };
            let body = Box::new(move || {
                coming.comes();
                body();
            });
            let outcome = user::call(|| start(member, has_name, spec, body));
            let outcome = outcome.unwrap_or_else(|panic| {
                thrown = Some(panic);
                let reason = std::io::Error::other("its start panicked");
                Err(SpawnError::refused("a member", reason))
            });
            outcome.map(|()| ThreadSlot::Elsewhere)
        }
    };
    let (outcome, _) = pool.start_worker_by(index, name, by);
    if let Some(thrown) = thrown {
        thrown.resume();
    }
    if outcome.is_ok()
        && is_due.compare_exchange(BEING_STARTED, DUE, Relaxed, Relaxed) == Err(DROPPED)
    {
        never_comes(pool, index);
    }
    outcome
}

/// Makes this thread the member with index 0, until it ends.
///
/// It counts as permanently blocked: outside of the team's work it runs the program's code.
fn adopt_this_thread<P: Platform>(pool: &Arc<Pool<P>>) {
    // Leaked: if the thread ends the process inside its work, other threads that read the frame remain.
    let frame = Box::leak(Box::new(Frame::of_worker()));
    let context = Box::into_raw(Box::new(Context::new(pool, 0, frame)));
    P::set_local(LocalKey::Worker, context.cast());
    P::at_thread_end(Box::new(move || {
        // Otherwise it is no longer a member or, in a forked process, never was.
        if ptr::eq(P::local(LocalKey::Worker), context.cast()) {
            // SAFETY: it is the context that this thread was given. If that was removed, and another was given at the same
            // address, that one's destructor ran first, and none is set any more.
            unsafe { lose_maker(context) };
        }
    }));
    let mut state = pool.lock_state();
    state.set_blocked(0, Blocked::Declared);
    state.roster.put_handle(0, Some(ThreadSlot::Elsewhere));
    state.roster.starting -= 1;
}

/// The team cannot be started: removes this thread from it, if it was a member.
fn lose_this_thread<P: Platform>(pool: &Arc<Pool<P>>) {
    if !context_here::<P>().is_some_and(|here| Arc::ptr_eq(&here.pool, pool)) {
        return;
    }
    {
        let mut state = pool.lock_state();
        // As when the first worker of a pool cannot be started: the pool does not exist.
        let is_only_one = state.roster.alive() == 1;
        state.roster.stopping |= is_only_one;
    }
    // SAFETY: it is a worker of a team that no caller has yet, so it was adopted just now.
    unsafe { lose_maker::<P>(P::local(LocalKey::Worker).cast()) };
}

/// Removes the adopted thread from its team, because it ends or its team cannot be started. Jobs that were sent to it and have
/// not begun are dropped, not run: the thread may be ending the process while it holds a lock.
///
/// # Safety
/// `context` is what [`adopt_this_thread`] has given this thread.
unsafe fn lose_maker<P: Platform>(context: *mut Context<P>) {
    // SAFETY: by this function's contract.
    let here = unsafe { &*context };
    let pool = Arc::clone(&here.pool);
    if pool.is_forked() {
        // The thread that holds the pool's lock may not exist here.
        return;
    }
    let worker = CurrentWorker { context: here };
    loop {
        while let Some(ListedJob { body, parts, .. }) = worker.take_mail() {
            drop(user::discard(body));
            if !parts.is_null() {
                // SAFETY: it is one of them, and counts as finished now.
                unsafe { Parts::end(parts, 1) };
            }
        }
        let mut state = pool.lock_state();
        if !pool.slots.get(0).mail.has_jobs() {
            state.cold_mut().has_lost_maker = true;
            break;
        }
    }
    P::set_local(LocalKey::Worker, ptr::null_mut());
    never_comes(&pool, 0);
    // SAFETY: by this function's contract. Only this thread reads it, and no longer finds it; if it ends the process inside
    // its work, it does not return to that work.
    drop(unsafe { Box::from_raw(context) });
}

/// Removes a member whose start was accepted and then dropped, or whose own thread has ended.
#[cold]
fn never_comes<P: Platform>(pool: &Pool<P>, index: usize) {
    let is_ending = {
        let mut state = pool.lock_state();
        state.roster.retire_for_good(index);
        let is_ending = state.roster.ending;
        let is_last = is_ending && state.roster.alive() == 0;
        state.roster.stopping |= is_last;
        is_ending
    };
    if is_ending {
        end_if_over(pool);
    }
}

/// True on a thread that is a worker already.
pub(crate) fn is_taken<P: Platform>() -> bool {
    context_here::<P>().is_some()
}

//! A team's workers: they are its members, for as long as it lives, and no other worker takes the place of one.
//!
//! A member's index is its own, and what it runs keeps that index: so another thread cannot run in its place while it
//! waits. A member that waits runs subtasks of what it waits for, and its mail, and more as time goes by; `README.md` says what,
//! and why.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, LocalKey, Platform, SpawnError, ThreadSpec, user};

use super::context::{Context, context_here};
use super::current::CurrentWorker;
use super::frame::Frame;
use super::jobs::{ListedJob, Parts};
use super::pool::Pool;
use super::roster::{Blocked, ThreadSlot};
use super::set::PoolSet;
use super::start::refused;
use super::team::end_if_over;

/// What a member's thread is called.
pub(crate) type NameMember<'name> = &'name mut dyn FnMut(usize) -> Option<String>;

/// Gets a thread for a member: its index, whether it has a name of its own, what the thread is to be, and what it runs.
pub(crate) type StartMember<'start> = &'start mut dyn FnMut(
    usize,
    bool,
    ThreadSpec,
    Box<dyn FnOnce() + Send>,
) -> Result<(), SpawnError>;

/// What became of a start that the program was given.
const BEING_STARTED: u32 = 0;
/// It was accepted, and the member is to come.
const DUE: u32 = 1;
const CAME: u32 = 2;
/// No thread runs it.
const DROPPED: u32 = 3;

/// In a member's body, until that is called.
struct Coming<P: Platform> {
    pool: Arc<Pool<P>>,
    index: usize,
    is_due: Arc<P::AtomicU32>,
}

impl<P: Platform> Coming<P> {
    /// On its thread: it counts among those that run.
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

/// Each member has its slot, so that it can be sent to, before any runs.
pub(super) fn make_room<P: Platform>(pool: &Pool<P>) {
    let _state = pool.lock_state();
    (0..pool.place.members.len()).for_each(|index| pool.slots.ensure(index));
}

impl<P: Platform> PoolSet<P> {
    /// Starts a team's members, by their index, each on a thread that `start` gets, or on one of the platform's.
    ///
    /// # Errors
    /// If one cannot be had; the others exit with the lease, and this thread is none.
    pub(crate) fn man_team(
        &self,
        name_of: NameMember<'_>,
        mut start: Option<StartMember<'_>>,
    ) -> Result<(), SpawnError> {
        // A hook of the first may send to all.
        self.pools().for_each(|pool| make_room(pool));
        let start_all =
            || self.pools().try_for_each(|pool| start_members(pool, name_of, &mut start));
        // A user's names and starts may throw.
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
        // A user's: before anything is reserved.
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
            // The program decides when it comes: it does not run until then.
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
            // A user's: what was reserved is given back, whatever it throws.
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

/// This thread is the member with index 0 from here on, until it ends.
///
/// It counts as blocked for good: what it does outside of the team's work is its own.
fn adopt_this_thread<P: Platform>(pool: &Arc<Pool<P>>) {
    // It stays for good: a thread that ends the process inside of its work leaves others there that look at it.
    let frame = Box::leak(Box::new(Frame::of_worker()));
    let context = Box::into_raw(Box::new(Context::new(pool, 0, frame)));
    P::set_local(LocalKey::Worker, context.cast());
    P::at_thread_end(Box::new(move || {
        // Else it is no member any more, or, in a forked process, never was.
        if ptr::eq(P::local(LocalKey::Worker), context.cast()) {
            // SAFETY: it is what this thread was given. If that was taken away, and it was given another at the same place, it
            // was that one's turn first, and there is none any more.
            unsafe { lose_maker(context) };
        }
    }));
    let mut state = pool.lock_state();
    state.set_blocked(0, Blocked::Declared);
    state.roster.put_handle(0, Some(ThreadSlot::Elsewhere));
    state.roster.starting -= 1;
}

/// The team cannot be had: this thread is none of its members, if it was.
fn lose_this_thread<P: Platform>(pool: &Arc<Pool<P>>) {
    if !context_here::<P>().is_some_and(|here| Arc::ptr_eq(&here.pool, pool)) {
        return;
    }
    {
        let mut state = pool.lock_state();
        // As if the first worker of a pool cannot be had: the pool does not exist.
        let is_only_one = state.roster.alive() == 1;
        state.roster.stopping |= is_only_one;
    }
    // SAFETY: it is a worker of a team that no caller has yet, so it was adopted, just now.
    unsafe { lose_maker::<P>(P::local(LocalKey::Worker).cast()) };
}

/// The thread that was adopted ends, or its team cannot be had: the team is without it from here on, and what it was sent and has
/// not begun is dropped. It runs none of that: it may be that it ends the process, holding a lock.
///
/// # Safety
/// It is what [`adopt_this_thread`] has given this thread.
unsafe fn lose_maker<P: Platform>(context: *mut Context<P>) {
    // SAFETY: by this function's contract.
    let here = unsafe { &*context };
    let pool = Arc::clone(&here.pool);
    if pool.is_forked() {
        // The holder of the pool's lock may not be here.
        return;
    }
    let worker = CurrentWorker { context: here };
    loop {
        while let Some(ListedJob { body, parts, .. }) = worker.take_mail() {
            drop(user::discard(body));
            if !parts.is_null() {
                // SAFETY: it is one of them, and finished with that.
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
    // SAFETY: by this function's contract. This thread alone looks at it, and finds it no more; if it ends the process inside of
    // its work, it does not come back to that.
    drop(unsafe { Box::from_raw(context) });
}

/// A member whose start was accepted, and dropped, or whose own thread has ended: the team is without it.
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

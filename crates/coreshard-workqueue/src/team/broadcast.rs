//! Broadcasts: calls that each member makes once.
#![allow(unsafe_code)]

use std::sync::Arc;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Lock, Padded, Platform};

use super::calls::Calls;
use super::job::{Reach, call_detached, detached, within};
use super::scope::TeamScope;
use super::wait::wait_for;
use crate::pool::{
    Closure, JobBody, JobNumber, ListedJob, OwnPool, Parts, Pool, mail, with_pool_of,
};

/// The result of a member's call; `None` before.
type Outcome<P, R> = Padded<Lock<P, Option<Result<R, Thrown>>>>;

/// The caller's state until all members have made the call.
struct Broadcast<'op, P: Platform, F, R> {
    op: &'op F,
    /// Apart from one another: each is written once, by its member.
    results: Box<[Outcome<P, R>]>,
    calls: Calls<P>,
    parts: Parts<P>,
}

/// Calls `op` on each of the given number of members, and waits; of a queue's workers, on any that are available.
pub(super) fn broadcast<P: Platform, R: Send>(
    pool: &Arc<OwnPool<P>>,
    members: usize,
    op: &(impl Fn(usize) -> R + Sync),
) -> Vec<R> {
    if !pool.is_team() {
        return on_queue(pool, members, op);
    }
    let results = (0..members).map(|_| Padded::new(Lock::new(None))).collect();
    let all = Broadcast::<P, _, R> { op, results, calls: Calls::new(members), parts: Parts::new() };
    let send = |index| {
        // Counted only when it is taken.
        let job = || {
            let body = JobBody::Call(part_of(&all, index));
            all.parts.begin(None);
            let (whole, parts) = (all.parts.done(), &raw const all.parts);
            ListedJob { body, root: whole, parts, within: within::<P>() }
        };
        with_pool_of(pool, index, |pool| mail(pool, index, job))
    };
    let send_all = || all.calls.make(pool, (0..members).filter_map(send));
    let (outcome, is_pending) = all.parts.open(None, || user::call(send_all));
    // If a panic is thrown there, this frame still stays until the jobs that were sent have ended.
    if is_pending {
        wait_for(pool, all.parts.done(), JobNumber::NONE);
    }
    if let Err(thrown) = outcome {
        thrown.resume();
    }
    let results: Vec<_> = all.results.iter().map(|result| result.lock().take()).collect();
    let is_whole = results.iter().all(Option::is_some);
    let results: Result<Vec<R>, Thrown> = results.into_iter().flatten().collect();
    let results = results.unwrap_or_else(|thrown| thrown.resume());
    assert!(
        is_whole,
        "the thread that made the team was its member 0, and has ended: it can do nothing any more"
    );
    results
}

/// Returns one member's part. It is called, or dropped, before it counts as finished.
fn part_of<P: Platform, R: Send, F: Fn(usize) -> R + Sync>(
    all: &Broadcast<'_, P, F, R>,
    index: usize,
) -> Closure {
    let reach = Reach(all);
    let run = move || {
        // Captures all of it, not its one field.
        let Reach(all) = { reach };
        // SAFETY: the caller keeps it until all parts have finished.
        let shared = unsafe { &*all };
        shared.calls.help_here();
        let outcome = user::call(|| (shared.op)(index));
        *shared.results[index].lock() = Some(outcome);
    };
    let run: Box<dyn FnOnce() + Send + '_> = Box::new(run);
    // SAFETY: it is called or dropped before the part has finished, and so before its borrows end: the sender waits for that,
    // and leaves its frame in no other way (if the wait cannot end, in a process that was forked, no thread would call it).
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Closure>(run) }
}

fn on_queue<P: Platform, R: Send>(
    pool: &Arc<OwnPool<P>>,
    members: usize,
    op: &(impl Fn(usize) -> R + Sync),
) -> Vec<R> {
    let results: Lock<P, Vec<_>> = Lock::new((0..members).map(|_| None).collect());
    TeamScope::run(Arc::clone(pool), |scope| {
        for index in 0..members {
            let results = &results;
            scope.spawn(move |_| {
                let result = op(index);
                results.lock()[index] = Some(result);
            });
        }
    });
    let results = std::mem::take(&mut *results.lock());
    results.into_iter().map(|result| result.expect("all have done it")).collect()
}

/// Calls `op` later on each of the given number of members of a team.
pub(super) fn spawn_broadcast<P: Platform>(
    pool: &Pool<P>,
    members: usize,
    op: impl Fn(usize) + Send + Sync + 'static,
) {
    let (op, calls) = (Arc::new(op), Arc::new(Calls::new(members)));
    let send = |index| {
        let (op, of_part) = (Arc::clone(&op), Arc::clone(&calls));
        let part = move || {
            of_part.help_here();
            call_detached::<P>(|| op(index));
        };
        let body = JobBody::Call(Box::new(part));
        with_pool_of(pool, index, |pool| mail(pool, index, || detached(body)))
    };
    calls.make(pool, (0..members).filter_map(send));
}

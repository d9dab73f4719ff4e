//! Something that each member does once.
#![allow(unsafe_code)]

use std::sync::Arc;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{Lock, Platform};

use super::job::{Reach, call_detached, detached, within};
use super::scope::TeamScope;
use super::wait::wait_for;
use crate::pool::{
    Closure, JobBody, JobNumber, ListedJob, OwnPool, Parts, Pool, mail, with_pool_of,
};

/// What the caller keeps until all have done it.
struct Broadcast<'op, P: Platform, F, R> {
    op: &'op F,
    results: Lock<P, Vec<Option<Result<R, Thrown>>>>,
    parts: Parts<P>,
}

/// Calls `op` on each of so many members, and waits; of a queue's workers, on whichever there are.
pub(super) fn broadcast<P: Platform, R: Send>(
    pool: &Arc<OwnPool<P>>,
    members: usize,
    op: &(impl Fn(usize) -> R + Sync),
) -> Vec<R> {
    if !pool.is_team() {
        return on_queue(pool, members, op);
    }
    let results = Lock::new((0..members).map(|_| None).collect());
    let all = Broadcast::<P, _, R> { op, results, parts: Parts::new() };
    let send = |index| {
        // It counts only where it is taken.
        let job = || {
            let body = JobBody::Call(part_of(&all, index));
            all.parts.begin(None);
            let (whole, parts) = (all.parts.done(), &raw const all.parts);
            ListedJob { body, root: whole, parts, within: within::<P>() }
        };
        let _ = with_pool_of(pool, index, |pool| mail(pool, index, job));
    };
    let (outcome, is_pending) = all.parts.open(None, || user::call(|| (0..members).for_each(send)));
    // Whatever was thrown there, this frame stays until those that were sent have done it.
    if is_pending {
        wait_for(pool, all.parts.done(), JobNumber::NONE);
    }
    if let Err(thrown) = outcome {
        thrown.resume();
    }
    let results = std::mem::take(&mut *all.results.lock());
    let is_whole = results.iter().all(Option::is_some);
    let results: Result<Vec<R>, Thrown> = results.into_iter().flatten().collect();
    let results = results.unwrap_or_else(|thrown| thrown.resume());
    assert!(
        is_whole,
        "the thread that made the team was its member 0, and has ended: it can do nothing any more"
    );
    results
}

/// One member's part. It is called, or dropped, before it is over.
fn part_of<P: Platform, R: Send, F: Fn(usize) -> R + Sync>(
    all: &Broadcast<'_, P, F, R>,
    index: usize,
) -> Closure {
    let reach = Reach(all);
    let run = move || {
        // All of it, not its one field.
        let Reach(all) = { reach };
        // SAFETY: the caller keeps it until all parts are over.
        let shared = unsafe { &*all };
        let outcome = user::call(|| (shared.op)(index));
        shared.results.lock()[index] = Some(outcome);
    };
    let run: Box<dyn FnOnce() + Send + '_> = Box::new(run);
    // SAFETY: it is called or dropped before the part is over, and so before what it borrows is gone: whoever sends it waits for that,
    // and leaves its frame no other way (a wait that cannot end, in a process that was forked, has nobody who would
    // call it).
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

/// Calls `op` on each of so many members of a team, some time.
pub(super) fn spawn_broadcast<P: Platform>(
    pool: &Pool<P>,
    members: usize,
    op: impl Fn(usize) + Send + Sync + 'static,
) {
    let op = Arc::new(op);
    for index in 0..members {
        let op = Arc::clone(&op);
        let body = JobBody::Call(Box::new(move || call_detached::<P>(|| op(index))));
        let _ = with_pool_of(pool, index, |pool| mail(pool, index, || detached(body)));
    }
}

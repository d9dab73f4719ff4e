//! Something that each member does once.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;

use coreshard_platform::user::{self, Thrown};
use coreshard_platform::{AtomicInt, Lock, Platform};

use super::handle::{Team, call_detached, detached, within};
use super::wait::wait_for;
use crate::base::latch::Latch;
use crate::pool::{Body, Closure, JobNumber, ListedJob};

/// What the caller keeps until all have done it.
struct Awaited<'op, P: Platform, F, R> {
    op: &'op F,
    results: Lock<P, Vec<Option<Result<R, Thrown>>>>,
    pending: P::AtomicU64,
    done: Latch<P>,
}

/// Reaches what the caller keeps, from a member.
struct Reach<T>(*const T);

// SAFETY: what it leads to is shared between threads by its own locks and atomics; see `broadcast`.
unsafe impl<T> Send for Reach<T> {}

pub(super) fn broadcast<P: Platform, R: Send>(
    team: &Team<P>,
    op: &(impl Fn(usize) -> R + Sync),
) -> Vec<R> {
    let members = team.members();
    if !team.pool.is_team() {
        return on_queue(team, members, op);
    }
    let results = Lock::new((0..members).map(|_| None).collect());
    let pending = P::AtomicU64::new(members as u64);
    let awaited = Awaited::<P, _, R> { op, results, pending, done: Latch::new() };
    for index in 0..members {
        let reach = Reach(&raw const awaited);
        let run = move || {
            // All of it, not its one field.
            let Reach(awaited) = { reach };
            // SAFETY: the caller keeps it until `done` is open, which the last does last.
            let all = unsafe { &*awaited };
            let outcome = user::call(|| (all.op)(index));
            all.results.lock()[index] = Some(outcome);
            if all.pending.fetch_sub(1, AcqRel) == 1 {
                // SAFETY: as above; not touched after.
                unsafe { Latch::open(&raw const (*awaited).done) };
            }
        };
        let run: Box<dyn FnOnce() + Send + '_> = Box::new(run);
        // SAFETY: it is called before `done` is open, and so before what it borrows is gone: this thread waits for that,
        // and leaves this frame no other way (a wait that cannot end, in a process that was forked, has nobody who would
        // call it).
        let run = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Closure>(run) };
        let job = ListedJob { body: Body::Call(run), whole: &raw const awaited.done, within: within::<P>() };
        team.pool.with_pool_of(index, |pool| pool.mail(index, job));
    }
    wait_for(&awaited.done, JobNumber::NONE);
    let results = std::mem::take(&mut *awaited.results.lock());
    let results: Vec<_> =
        results.into_iter().map(|result| result.expect("all have done it")).collect();
    results.into_iter().collect::<Result<_, _>>().unwrap_or_else(|thrown: Thrown| thrown.resume())
}

/// As many calls as workers may run at once, on whichever workers of the queue.
fn on_queue<P: Platform, R: Send>(
    team: &Team<P>,
    members: usize,
    op: &(impl Fn(usize) -> R + Sync),
) -> Vec<R> {
    let results: Lock<P, Vec<_>> = Lock::new((0..members).map(|_| None).collect());
    team.in_place_scope(|scope| {
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

pub(super) fn spawn_broadcast<P: Platform>(
    team: &Team<P>,
    op: impl Fn(usize) + Send + Sync + 'static,
) {
    let op = Arc::new(op);
    for index in 0..team.members() {
        let op = Arc::clone(&op);
        if !team.pool.is_team() {
            team.spawn(move || op(index));
            continue;
        }
        let body = Body::Call(Box::new(move || call_detached::<P>(|| op(index))));
        team.pool.with_pool_of(index, |pool| pool.mail(index, detached(body)));
    }
}

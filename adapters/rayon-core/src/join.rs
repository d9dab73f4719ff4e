//! Runs two closures, in parallel if another thread is idle.

use std::marker::PhantomData;

use coreshard_workqueue::{join_told, join_told_or_else};

use crate::global;
use crate::team::Here;

/// Tells a closure of [`join_context`] whether it has moved to another thread.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// Neither `Send` nor `Sync`: it is about the thread that has it.
    not_send: PhantomData<*mut ()>,
}

impl FnContext {
    #[inline]
    fn new(migrated: bool) -> Self {
        Self { migrated, not_send: PhantomData }
    }

    /// Returns whether this is another thread than the one that called [`join_context`].
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Calls both closures, the second on another thread if one is idle, and waits for both. On a thread without a pool, both run in
/// the global one.
///
/// # Panics
/// If a closure panics: with the payload of `oper_a`, or else of `oper_b`, when both have finished. Both are called in any case.
#[inline]
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_context(|_| oper_a(), |_| oper_b())
}

/// As [`join()`]; each closure is told whether it runs on another thread than the caller's.
///
/// ```
/// # use rayon_core as rayon;
/// // This thread is in no pool, so both are brought to one.
/// let moved = rayon::join_context(|a| a.migrated(), |b| b.migrated());
/// assert_eq!(moved, (true, true));
/// ```
///
/// # Panics
/// As [`join()`].
#[inline]
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_told_or_else::<Here, _, _, _, _>(
        |moved| oper_a(FnContext::new(moved)),
        |moved| oper_b(FnContext::new(moved)),
        |a, b| global::team().install(|| join_told::<Here, _, _>(|_| a(true), |_| b(true))),
    )
}

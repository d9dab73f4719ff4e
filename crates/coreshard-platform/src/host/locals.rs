//! A thread's own pointers.

use std::cell::Cell;
use std::ptr;

use crate::LocalKey;

thread_local! {
    // Without a destructor: they can be asked for until the thread is gone, by users' destructors too.
    static WORKER: Cell<*mut ()> = const { Cell::new(ptr::null_mut()) };
    static EXECUTOR: Cell<*mut ()> = const { Cell::new(ptr::null_mut()) };
    static CEILINGS: Cell<*mut ()> = const { Cell::new(ptr::null_mut()) };
    static BUDGET: Cell<*mut ()> = const { Cell::new(ptr::null_mut()) };
}

#[inline(always)]
pub(super) fn get(key: LocalKey) -> *mut () {
    match key {
        LocalKey::Worker => WORKER.get(),
        LocalKey::Executor => EXECUTOR.get(),
        LocalKey::Ceilings => CEILINGS.get(),
        LocalKey::Budget => BUDGET.get(),
    }
}

#[inline(always)]
pub(super) fn set(key: LocalKey, value: *mut ()) {
    match key {
        LocalKey::Worker => WORKER.set(value),
        LocalKey::Executor => EXECUTOR.set(value),
        LocalKey::Ceilings => CEILINGS.set(value),
        LocalKey::Budget => BUDGET.set(value),
    }
}

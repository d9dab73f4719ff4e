//! Per-thread pointers.

use std::cell::{Cell, RefCell};
use std::ptr;

use super::cpu;
use crate::LocalKey;

thread_local! {
    // Without a destructor, so that they can be read until the thread has ended, also by users' destructors.
    static POINTERS: [Cell<*mut ()>; LocalKey::COUNT] =
        const { [const { Cell::new(ptr::null_mut()) }; LocalKey::COUNT] };
}

thread_local! {
    static ENDS: Ends = const { Ends(RefCell::new(Vec::new())) };
}

/// Closures to call when their thread ends, the latest first.
struct Ends(RefCell<Vec<Box<dyn FnOnce()>>>);

impl Drop for Ends {
    fn drop(&mut self) {
        while let Some(end) = self.0.get_mut().pop() {
            end();
        }
    }
}

fn is_main_thread() -> bool {
    cpu::this_thread().0 == std::process::id()
}

pub(super) fn at_thread_end(end: Box<dyn FnOnce()>) {
    // The process ends with its main thread, so the closures have no use.
    if is_main_thread() {
        return;
    }
    // A thread that is already ending reports nothing more.
    let _ = ENDS.try_with(|ends| ends.0.borrow_mut().push(end));
}

#[inline(always)]
pub(super) fn get(key: LocalKey) -> *mut () {
    POINTERS.with(|pointers| pointers[key as usize].get())
}

#[inline(always)]
pub(super) fn set(key: LocalKey, value: *mut ()) {
    POINTERS.with(|pointers| pointers[key as usize].set(value));
}

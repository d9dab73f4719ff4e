//! fork(2) without exec: the child has one thread, and none of the runtime's workers.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{generation, locals, readers};
use crate::{ForkHook, LocalKey};

/// Dead hooks are removed whenever the list has doubled.
static HOOKS: Mutex<Hooks> = Mutex::new(Hooks { hooks: Vec::new(), prune_at: 64 });

/// Whether the fork handlers are registered.
static HEARS: AtomicBool = AtomicBool::new(false);

struct Hooks {
    hooks: Vec<Weak<dyn ForkHook>>,
    prune_at: usize,
}

/// Held by the forking thread from before the fork until after it.
struct Forking {
    list: MutexGuard<'static, Hooks>,
    living: Vec<Arc<dyn ForkHook>>,
}

thread_local! {
    static FORKING: RefCell<Option<Forking>> = const { RefCell::new(None) };
}

pub(super) fn hook(hook: Weak<dyn ForkHook>) {
    hear_of_forks();
    let mut list = lock();
    list.hooks.push(hook);
    if list.hooks.len() >= list.prune_at {
        list.hooks.retain(|hook| hook.strong_count() > 0);
        list.prune_at = list.hooks.len().max(32) * 2;
    }
}

pub(super) fn hear_of_forks() {
    generation::register_once(&HEARS, || {
        // The generation and the readers are up to date in the child before its hooks run.
        generation::hear_of_forks();
        readers::hear_of_forks();
        generation::around(prepare, in_parent, in_child);
    });
}

fn lock() -> MutexGuard<'static, Hooks> {
    HOOKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs before the fork: locks the list, so that no thread changes it during the fork.
extern "C" fn prepare() {
    if FORKING.with_borrow(Option::is_some) {
        return;
    }
    let list = lock();
    let living = list.hooks.iter().filter_map(Weak::upgrade).collect();
    FORKING.with_borrow_mut(|forking| *forking = Some(Forking { list, living }));
}

extern "C" fn in_parent() {
    let forking = FORKING.take();
    if let Some(Forking { list, living }) = forking {
        drop(list);
        drop(living);
    }
}

extern "C" fn in_child() {
    // The pool that this thread worked for has no threads in the child.
    locals::set(LocalKey::Worker, std::ptr::null_mut());
    if let Some(Forking { list, living }) = FORKING.take() {
        drop(list);
        living.iter().for_each(|hook| hook.forked());
        // Leaked: dropping the last reference to a hook could wait for threads that the child does not have.
        std::mem::forget(living);
    }
}

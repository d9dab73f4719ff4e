//! What is called at this process's forks: around each of them, or in the child alone.
#![allow(unsafe_code)]

/// In the forked process, on its only thread, after what was registered before.
pub(super) fn in_child(child: extern "C" fn()) {
    register(None, None, child);
}

/// On the forking thread: `prepare` before the fork, `parent` and `child` after it, each in its process.
pub(super) fn around(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    register(Some(prepare), Some(parent), child);
}

fn register(
    prepare: Option<extern "C" fn()>,
    parent: Option<extern "C" fn()>,
    child: extern "C" fn(),
) {
    let handler = |function: extern "C" fn()| function as unsafe extern "C" fn();
    // SAFETY: the handlers are functions of this program, which live as long as it does.
    let rc = unsafe {
        libc::pthread_atfork(prepare.map(handler), parent.map(handler), Some(handler(child)))
    };
    // ENOMEM is its only error; a program that is that short ends soon, as it does elsewhere.
    assert_eq!(rc, 0, "pthread_atfork has no memory");
}

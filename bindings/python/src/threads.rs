//! Workers' thread states. Python makes one for each thread that calls it. Making one per call would cost more than the
//! call, and `threading.local` would lose its values. A worker's state is therefore made at its first call and freed
//! with the worker.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coreshard::{Builder, Hooks};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::process;

thread_local! {
    /// The state that keeps this worker's thread registered in Python, after its first call.
    static KEPT: Cell<Option<ffi::PyGILState_STATE>> = const { Cell::new(None) };
    /// This worker's number in its thread's name.
    static NUMBERED: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The workers' last hook. It is a single value, so that queues that call Python share their pools. It is made when the
/// package is imported: a process forked while another thread makes it would block forever.
pub(crate) fn hooks() -> &'static Hooks {
    static HOOKS: OnceLock<Hooks> = OnceLock::new();
    HOOKS.get_or_init(|| Hooks::new().on_stop(|_pod| forget_thread()))
}

/// Sets up a queue that calls Python: stack size and last hook of its workers.
pub(crate) fn for_python(builder: Builder<'_>, stack_bytes: usize) -> Builder<'_> {
    builder.hooks(hooks().clone()).stack_bytes(stack_bytes)
}

/// Returns the stack size of Python's threads: that of `threading.stack_size`, otherwise the C library's. The
/// interpreter relies on it: its recursion limit in C lies beyond the end of a smaller stack.
pub(crate) fn stack_bytes(py: Python<'_>) -> PyResult<usize> {
    const LEAST: usize = 2 << 20;
    let threading = py.import("threading")?;
    let asked: usize = threading.call_method0("stack_size")?.extract()?;
    if asked > 0 {
        // Calling it without an argument has set it to the default.
        threading.call_method1("stack_size", (asked,))?;
        return Ok(asked);
    }
    let (mut attributes, mut bytes) = (MaybeUninit::uninit(), 0);
    // SAFETY: the first call initializes the attributes if it succeeds, and the others read and destroy them.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) == 0 {
            libc::pthread_attr_getstacksize(attributes.as_ptr(), &raw mut bytes);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
    }
    Ok(bytes.max(LEAST))
}

/// Calls `inside` on this worker with the GIL held. Does nothing if the interpreter has ended.
pub(crate) fn on_worker<R>(inside: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    if process::has_ended() {
        return None;
    }
    keep_thread();
    Some(Python::attach(inside))
}

fn keep_thread() {
    if KEPT.get().is_some() {
        return;
    }
    // SAFETY: the interpreter exists, as `on_worker` checked: its end waits for all workers. `forget_thread` releases
    // this state, on this thread.
    let kept = unsafe { ffi::PyGILState_Ensure() };
    KEPT.set(Some(kept));
    // SAFETY: this thread holds the GIL by the call above. Python finds the state again by the thread.
    unsafe { ffi::PyEval_SaveThread() };
}

/// Names this worker's thread in `threading` after the executor whose calls it is about to run, and traces and profiles
/// it if `threading.settrace` and `setprofile` request that for new threads.
pub(crate) fn name_thread(py: Python<'_>, prefix: &str) -> PyResult<()> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBERED.get().unwrap_or_else(|| NUMBER.fetch_add(1, Relaxed));
    NUMBERED.set(Some(number));
    let threading = py.import("threading")?;
    threading.call_method0("current_thread")?.setattr("name", format!("{prefix}_{number}"))?;
    let sys = py.import("sys")?;
    for (asked, set) in [("gettrace", "settrace"), ("getprofile", "setprofile")] {
        let function = threading.call_method0(asked)?;
        if !function.is(sys.call_method0(asked)?) {
            sys.call_method1(set, (function,))?;
        }
    }
    Ok(())
}

/// The last hook of a worker.
fn forget_thread() {
    let Some(kept) = KEPT.take() else { return };
    if process::has_ended() {
        return;
    }
    Python::attach(|py| {
        // `threading` keeps its object for a foreign thread until it is removed.
        let forgotten = py.import("threading").and_then(|threading| {
            let ident = threading.call_method0("get_ident")?;
            threading.getattr("_active")?.call_method1("pop", (ident, py.None()))
        });
        if let Err(error) = forgotten {
            error.write_unraisable(py, None);
        }
    });
    // SAFETY: the first call takes the GIL with the state that `keep_thread` made on this thread, and the second one
    // releases it. As the outermost, it frees the state and the GIL.
    unsafe {
        ffi::PyEval_RestoreThread(ffi::PyGILState_GetThisThreadState());
        ffi::PyGILState_Release(kept);
    }
}

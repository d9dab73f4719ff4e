//! Errors: a negative errno, and a message per thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use coreshard::topology::PodsError;
use coreshard::{
    BuildError, RefusedReason, RuntimeError, WaitError, WorkError, WorkErrorReason, WouldDeadlock,
};

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// An errno above 0, and a message.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: c_int,
    text: String,
}

pub(crate) type Outcome<T = c_int> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(libc::EINVAL, text)
    }

    /// Stores the message for this thread, and sets errno.
    #[cold]
    pub(crate) fn tell(self) -> c_int {
        let text = CString::new(self.text.replace('\0', " ")).unwrap_or_default();
        // An exiting thread cannot store it.
        let _ = LAST.try_with(|last| last.replace(Some(text)));
        // SAFETY: the address is this thread's own.
        unsafe { *libc::__errno_location() = self.errno };
        -self.errno
    }
}

/// Returns the message of the calling thread's latest failed call, in English, never null. It is valid until the
/// thread's next failed call.
#[unsafe(no_mangle)]
pub extern "C" fn cs_last_error() -> *const c_char {
    const NONE: &CStr = c"no call of this thread has failed";
    let last = LAST.try_with(|last| last.borrow().as_ref().map(|text| text.as_ptr()));
    last.ok().flatten().unwrap_or(NONE.as_ptr())
}

/// Calls `code`, and converts errors and panics to a negative errno.
#[inline(always)]
pub(crate) fn guard(code: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(Ok(done)) => done,
        Ok(Err(failure)) => failure.tell(),
        Err(payload) => panicked(payload).tell(),
    }
}

/// As [`guard`], for a call that returns 0 on success.
pub(crate) fn guard_done(code: impl FnOnce() -> Outcome<()>) -> c_int {
    guard(|| code().map(|()| 0))
}

/// As [`guard`], for a call that returns a pointer: null, and errno, on failure.
pub(crate) fn guard_pointer<T>(code: impl FnOnce() -> Outcome<Box<T>>) -> *mut T {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(Ok(made)) => return Box::into_raw(made),
        Ok(Err(failure)) => failure.tell(),
        Err(payload) => panicked(payload).tell(),
    };
    ptr::null_mut()
}

#[cold]
pub(crate) fn panicked(payload: Box<dyn std::any::Any + Send>) -> Failure {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    // Its destructor may be arbitrary code.
    std::mem::forget(payload);
    Failure::new(
        libc::ENOTRECOVERABLE,
        format!("Coreshard has panicked: {}", text.as_deref().unwrap_or("(not a text)")),
    )
}

fn errno_of(reason: RefusedReason) -> c_int {
    match reason {
        RefusedReason::ShutDown => libc::ESHUTDOWN,
        RefusedReason::Draining => libc::EBUSY,
        RefusedReason::Panicked => libc::ECANCELED,
        RefusedReason::Forked => libc::ECHILD,
        RefusedReason::NoSuchCpu(_) | RefusedReason::NoSuchNode(_) => libc::EINVAL,
        RefusedReason::WouldDeadlock => libc::EDEADLK,
        _ => libc::EAGAIN,
    }
}

impl From<WorkError> for Failure {
    #[cold]
    fn from(error: WorkError) -> Self {
        let errno = match error.reason() {
            WorkErrorReason::Refused(reason) => errno_of(reason),
            WorkErrorReason::Disabled => libc::EPERM,
            WorkErrorReason::BeyondClock => libc::ERANGE,
            WorkErrorReason::WouldDeadlock => libc::EDEADLK,
            WorkErrorReason::NotDisabled => libc::EINVAL,
            WorkErrorReason::TooManyDisables => libc::EOVERFLOW,
            WorkErrorReason::PendingAtFork => libc::ECHILD,
            _ => libc::EAGAIN,
        };
        Self::new(errno, error.to_string())
    }
}

impl From<RefusedReason> for Failure {
    #[cold]
    fn from(reason: RefusedReason) -> Self {
        Self::new(errno_of(reason), format!("the call was not queued: {reason}"))
    }
}

impl<F> From<coreshard::Refused<F>> for Failure {
    fn from(refused: coreshard::Refused<F>) -> Self {
        Self::new(errno_of(refused.reason()), refused.to_string())
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        use std::error::Error as _;
        // A thread may also have failed to start, besides an invalid request.
        let is_asked_wrongly = error.source().is_none_or(|source| source.is::<PodsError>());
        let errno = match is_asked_wrongly {
            _ if error.is_forked() => libc::ECHILD,
            true => libc::EINVAL,
            false => libc::EAGAIN,
        };
        Self::new(errno, error.to_string())
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        Self::new(libc::ENODEV, error.to_string())
    }
}

impl From<WouldDeadlock> for Failure {
    fn from(error: WouldDeadlock) -> Self {
        let errno = if error.is_forked() { libc::ECHILD } else { libc::EDEADLK };
        Self::new(errno, error.to_string())
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        let errno = if error.is_timeout() { libc::ETIMEDOUT } else { libc::EDEADLK };
        Self::new(errno, error.to_string())
    }
}

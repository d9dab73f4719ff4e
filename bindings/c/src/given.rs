//! Checks and converts C arguments: pointers, strings, structures and functions. A null pointer is an error that names
//! the argument, unless null is allowed.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::error::{Failure, Outcome, guard_done};

/// Borrows the value behind a pointer.
pub(crate) fn given<'call, T>(pointer: *const T, what: &str) -> Outcome<&'call T> {
    // SAFETY: C says that it is one, or null, and there for the call.
    unsafe { pointer.as_ref() }
        .ok_or_else(|| Failure::invalid(format!("the {what} is a null pointer")))
}

/// Takes back ownership of a value.
pub(crate) fn taken<T>(pointer: *mut T, what: &str) -> Outcome<Box<T>> {
    given(pointer, what)?;
    // SAFETY: made by `Box::into_raw`, and C says that it is used no more.
    Ok(unsafe { Box::from_raw(pointer) })
}

/// Frees a value. Null is allowed.
pub(crate) fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        guard_done(|| taken(pointer, "").map(drop));
    }
}

/// Reads a string, if it is not null.
pub(crate) fn text<'call>(string: *const c_char) -> Option<Cow<'call, str>> {
    // SAFETY: C says that it is a string, and there for the call.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy())
}

/// Reads a structure whose first member is its size. Members unknown to an older program are 0.
///
/// # Safety
/// All zeros are a value of `T`, its defaults, and so are any bytes that C gives.
pub(crate) unsafe fn sized<T>(pointer: *const T, what: &str, begin: &str) -> Outcome<T> {
    // SAFETY: by the caller's contract.
    let mut read: T = unsafe { std::mem::zeroed() };
    let known = size_of::<T>();
    // SAFETY: C guarantees that it exists; the first member is the size.
    let size = unsafe { pointer.cast::<usize>().as_ref() }.copied().unwrap_or(0);
    if size < size_of::<usize>() || size > known {
        return Err(Failure::invalid(format!(
            "{what} a size of {size} bytes; begin {begin} (this library knows up to {known})"
        )));
    }
    // SAFETY: this many bytes exist.
    unsafe { (&raw mut read).cast::<u8>().copy_from(pointer.cast(), size) };
    Ok(read)
}

/// Checks a function pointer.
pub(crate) fn function<F>(given: Option<F>) -> Outcome<F> {
    given.ok_or_else(|| Failure::invalid("the function is a null pointer"))
}

/// An argument that may be sent to any thread with its function.
#[derive(Clone, Copy)]
pub(crate) struct Argument(pub(crate) *mut c_void);
// SAFETY: C says that its function may be called with it on any thread.
unsafe impl Send for Argument {}
// SAFETY: as above, on several.
unsafe impl Sync for Argument {}

impl Argument {
    pub(crate) fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Converts a count to C's type, saturating.
pub(crate) fn number(count: usize) -> c_int {
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

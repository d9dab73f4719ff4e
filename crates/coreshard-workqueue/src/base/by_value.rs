//! A value that is reached by value alone.
#![allow(unsafe_code)]

/// Holds a value that nobody can look at while it is shared: so it may be shared, whatever it is.
pub(crate) struct ByValue<T>(T);

// SAFETY: through a shared reference nothing of the value can be reached: this type has no method, nor any
// implementation, that takes one.
unsafe impl<T> Sync for ByValue<T> {}

impl<T> ByValue<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }

    pub(crate) fn into_value(self) -> T {
        self.0
    }
}

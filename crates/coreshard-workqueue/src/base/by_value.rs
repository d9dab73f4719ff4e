//! A value that is reached by value alone.
#![allow(unsafe_code)]

use std::any::Any;

use coreshard_platform::user::Thrown;

/// Holds a value that nobody can look at while it is shared: so it may be shared, whatever it is.
pub(crate) struct ByValue<T>(T);

// SAFETY: through a shared reference nothing of the value can be reached but by `downcast_ref` below: this type has
// no other method, nor any implementation, that takes one.
unsafe impl<T> Sync for ByValue<T> {}

impl<T> ByValue<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }

    pub(crate) fn into_value(self) -> T {
        self.0
    }
}

impl ByValue<Thrown> {
    /// What was thrown, if it is a `T`, which may be shared. Whatever else it is, nothing of it is touched but
    /// the name of its type, which belongs to no value.
    pub(crate) fn downcast_ref<T: Any + Sync>(&self) -> Option<&T> {
        self.0.payload().downcast_ref()
    }
}

//! A value that can only be accessed by value.
#![allow(unsafe_code)]

use std::any::Any;

use coreshard_platform::user::Thrown;

/// Holds a value that cannot be accessed through a shared reference. So it is `Sync` for any type.
pub(crate) struct ByValue<T>(T);

// SAFETY: a shared reference gives access to the value only by `downcast_ref` below: this type has no other method and no
// implementation that takes one.
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
    /// The panic payload, if it is a `T`, which may be shared. Otherwise only the type's name is read, which is not part of
    /// the value.
    pub(crate) fn downcast_ref<T: Any + Sync>(&self) -> Option<&T> {
        self.0.payload().downcast_ref()
    }
}

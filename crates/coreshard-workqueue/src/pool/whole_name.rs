//! What is waited for, by its address.

/// By what thieves tell one whole from another: an address that nothing else has meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WholeName(u64);

impl WholeName {
    /// That of what has `place` for itself as long as it is not over.
    pub(crate) fn at<T>(place: *const T) -> Self {
        Self(place.addr() as u64)
    }

    pub(super) fn address(self) -> u64 {
        self.0
    }
}

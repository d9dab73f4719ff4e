//! Sizes that several modules use.

/// Injectors of a pool at most. Pods with more CPUs share injectors.
pub(crate) const MAX_INJECTORS: usize = 32;

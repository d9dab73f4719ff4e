//! What a machine may be, to be simulated.

/// The most CPUs of a simulated machine.
pub const MAX_CPUS: usize = 1024;

/// Sizes of a cache line that are known, in bytes.
pub(super) const LINE_BYTES: [usize; 2] = [64, 128];
pub(super) const DEFAULT_LINE_BYTES: usize = 64;

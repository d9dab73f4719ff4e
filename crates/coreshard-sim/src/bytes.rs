//! Bytes and fences of the simulated machine.

use std::sync::atomic;

use coreshard_platform::ByteAtomics;

use crate::atomic::SimAtomic;
use crate::engine;
use crate::memory::Access;
use crate::platform::Sim;

impl ByteAtomics for Sim {
    type AtomicU8 = SimAtomic<atomic::AtomicU8>;

    /// A locked instruction on the thread's own stack, as compilers make a fence on x86-64: it waits
    /// until the stores before it are done, and contends with nobody.
    fn fence() {
        let own = 0_u32;
        engine::access(
            (&raw const own).addr(),
            size_of::<u32>(),
            Access::ReadModifyWrite,
            std::panic::Location::caller(),
        );
    }
}

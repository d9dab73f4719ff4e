//! Instantiates the benchmarks for both platforms, only in builds without optimisation. Such builds share
//! generic code: the programs and tests of dependent crates link this code instead of compiling all of it
//! again. When it was added, this saved 37 s for the command's program and 58 s for the simulator's tests.
//! Optimised builds share no generic code.

use coreshard_platform::Host;
use coreshard_sim::Sim;

use crate::kernel::KernelBench;
use crate::rt::{Compression, Computing, CyclicBench, IndexBench, PiBench, TranscodeBench};
use crate::{
    BlockBench, ComparisonBench, HbaBench, QueueBench, QueueTrial, ScenarioTrial, calibrate,
    contended, item_chains, tune,
};

/// Returns the addresses of all benchmarks, so that the compiler instantiates them.
// If it were inlined, its callers would compile it, and there are none.
#[doc(hidden)]
#[inline(never)]
#[must_use]
pub fn instances() -> [*const (); 26] {
    [
        QueueBench::run::<Host> as *const (),
        QueueBench::run::<Sim> as *const (),
        QueueBench::run_scaling::<Host> as *const (),
        QueueTrial::run::<Host> as *const (),
        QueueTrial::run::<Sim> as *const (),
        ScenarioTrial::run::<Sim> as *const (),
        tune::<Host> as *const (),
        BlockBench::run::<Host> as *const (),
        ComparisonBench::run::<Host> as *const (),
        ComparisonBench::run::<Sim> as *const (),
        HbaBench::run::<Host> as *const (),
        HbaBench::run::<Sim> as *const (),
        calibrate::<Host> as *const (),
        calibrate::<Sim> as *const (),
        contended::<Sim> as *const (),
        item_chains::<Host> as *const (),
        item_chains::<Sim> as *const (),
        KernelBench::run::<Sim> as *const (),
        CyclicBench::run::<Host> as *const (),
        CyclicBench::run::<Sim> as *const (),
        IndexBench::run::<Host> as *const (),
        IndexBench::run::<Sim> as *const (),
        PiBench::run::<Host> as *const (),
        PiBench::run::<Sim> as *const (),
        TranscodeBench::run::<Host, Compression> as *const (),
        TranscodeBench::run::<Sim, Computing> as *const (),
    ]
}

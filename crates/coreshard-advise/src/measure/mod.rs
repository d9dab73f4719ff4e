//! Measures kernel workqueues with the tracepoints `workqueue:*`.
//!
//! [`measure`] reads them from a tracefs instance that it creates and removes, so other tracing is not affected.
//! [`Tally`] computes figures from the lines and uses neither files nor clocks.
//!
//! ```
//! use coreshard_advise::measure::Tally;
//! use coreshard_topology::Topology;
//!
//! let machine = Topology::from_synthetic("pack:1 l3:2 core:1 pu:1")?;
//! let mut tally = Tally::new(&machine, 10_000);
//! for line in [
//!     "  cp-7 [000] d..1. 1.000010: workqueue_queue_work: work struct=a1 function=f workqueue=q req_cpu=256 cpu=0",
//!     "  kworker/u4:1-9 [001] ..... 1.000030: workqueue_execute_start: work struct a1: function f",
//!     "  kworker/u4:1-9 [001] ..... 1.000080: workqueue_execute_end: work struct a1: function f",
//! ] {
//!     tally.line(line);
//! }
//! let measured = tally.finish(1.0);
//! let queue = &measured.queues[0];
//! assert_eq!((queue.name.as_str(), queue.started, queue.crossed_llc), ("q", 1, 1));
//! assert_eq!((queue.delay.max_us, queue.run.max_us), (20, 50));
//! # Ok::<(), coreshard_topology::TopologyError>(())
//! ```

mod event;
mod tally;
mod tracefs;

pub use tally::{Measured, MeasuredQueue, Tally, Times};
pub use tracefs::{MeasureError, measure};

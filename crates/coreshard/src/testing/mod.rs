//! Deterministic tests of a program of one's own, with the feature `testing`.
//!
//! ```toml
//! [dependencies]
//! coreshard = "0.1"
//! [dev-dependencies]
//! coreshard = { version = "0.1", features = ["testing"] }
//! ```
//!
//! | for | there is |
//! |---|---|
//! | what a program does step by step, and in time | [`by_hand`](by_hand()): no item runs and no time passes before the test says so |
//! | whether it is right in each order of things | [`check`](check()): many runs on a simulated machine, each on a schedule that its seed decides, with faults if you like |
//!
//! A program gets its queues from [`simulated`] in its tests, and from the crate's root otherwise: that is one `use` under `cfg(test)`.
//! [`simulated`] has all of the root's names, for a [machine](TestMachine) that is this one, but inside of such a test
//! a simulated one. The pools' code is the same, and [`runtime`](simulated::runtime()), [`workqueue`](simulated::workqueue()),
//! [`timeout`](simulated::timeout()) and [`join`](simulated::join()) are on a runtime of the test's own. The feature changes no type and no function of the
//! root: a queue of the root's is on this machine, also inside of such a test. [`block`](crate::block) and [`rt`](crate::rt) stay on
//! this machine as well: use them outside of such tests.
//!
//! # What is not simulated
//!
//! All virtual threads of a test take turns on one thread of this machine. So code that waits by other means than
//! this crate's, for something that another item is to do, waits for ever: a channel, a condition variable or a join of a thread of the
//! standard library. Where nothing goes on for 10 s of real time, the test fails, and says in which item. A lock of the
//! standard library that is not held over such a wait, nor over one of this crate's, is no problem. `std::thread::sleep` sleeps in real time;
//! `Instant::now` tells real time, and a thread-local value is shared by all virtual threads. What a test may depend on, so
//! that a seed gives the same run again, tells [`Check::run`].
//!
//! ```
//! use std::time::Duration;
//! use coreshard::testing::{Check, Fault, block_on, simulated};
//!
//! /// Asks until there is an answer, or `limit` is over.
//! async fn ask(limit: Duration) -> Option<u32> {
//!     let answer = async {
//!         let mut tries = 0;
//!         loop {
//!             tries += 1;
//!             if tries == 3 {
//!                 return tries;
//!             }
//!             simulated::runtime().unwrap().sleep(Duration::from_millis(100)).unwrap().await;
//!         }
//!     };
//!     simulated::timeout(limit, answer).await.ok()
//! }
//!
//! Check::new().seeds(20).cpus(2).faults(Fault::ALL).run(|| {
//!     let queue = simulated::workqueue().unwrap().name("ask").build().unwrap();
//!     let (enough, short) = (Duration::from_secs(1), Duration::from_millis(150));
//!     let patient = queue.spawn(ask(enough)).unwrap();
//!     let impatient = queue.spawn(ask(short)).unwrap();
//!     assert_eq!(block_on(patient), Some(3));
//!     assert_eq!(block_on(impatient), None);
//! });
//! ```

mod block_on;
mod by_hand;
mod check;
mod fault;
mod left_behind;
mod run;
pub mod simulated;

pub use crate::test_machine::{TestMachine, TestThread};
pub use block_on::block_on;
pub use by_hand::{Hand, by_hand};
pub use check::{Check, Checked, Preemption, check};
pub use coreshard_sim::{Machine, MachineError, Schedule};
pub use fault::Fault;

// For this crate's own tests, in which this module hides the crate of that name.
#[cfg(test)]
pub(crate) use ::testing::watch;

/// A place where a test lets other threads go first, if its schedule says so; nothing outside of a [`check`](check()). Code that
/// shares data by atomics of its own may have them between its accesses; not where it holds a lock of the
/// standard library that another thread wants.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
///
/// fn add(total: &AtomicU32) {
///     let before = total.load(SeqCst);
///     coreshard::testing::preemption_point(); // here another item may add, too
///     total.store(before + 1, SeqCst);
/// }
/// # let total = AtomicU32::new(0);
/// # add(&total);
/// # assert_eq!(total.into_inner(), 1);
/// ```
pub fn preemption_point() {
    coreshard_sim::Sim::preemption_point();
}

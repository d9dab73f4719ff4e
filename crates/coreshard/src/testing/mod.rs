//! Deterministic tests of your own program, with the feature `testing`.
//!
//! ```toml
//! [dependencies]
//! coreshard = "0.1"
//! [dev-dependencies]
//! coreshard = { version = "0.1", features = ["testing"] }
//! ```
//!
//! | purpose | function |
//! |---|---|
//! | test a program step by step and over time | [`by_hand`](by_hand()): no item runs and no time passes until the test
//! says so |
//! | test all orders of events | [`check`](check()): many runs on a simulated machine, each with a schedule drawn from
//! its seed, optionally with faults |
//!
//! In tests a program uses the queues of [`simulated`] instead of the queues in the crate's root, with one `use` under
//! `cfg(test)`. [`simulated`] has all names of the root, for a [machine](TestMachine) that is simulated inside such a
//! test and real elsewhere. The code of the pools is the same. [`runtime`](simulated::runtime()),
//! [`workqueue`](simulated::workqueue()), [`timeout`](simulated::timeout()) and [`join`](simulated::join()) use a
//! runtime of the test. The feature changes no type or function of the root: a queue of the root uses this machine,
//! even inside such a test. So do [`block`](crate::block) and [`rt`](crate::rt): use them outside such tests.
//!
//! # What is not simulated
//!
//! All virtual threads of a test share one thread of this machine. Code that waits for another item by other means than
//! this crate's therefore blocks forever: with a channel, a condition variable or a thread join of the standard
//! library. After 10 s of real time without progress, the test fails and names the item. Locks of the standard library
//! are fine if they are not held across such a wait, or across one of this crate. `std::thread::sleep` and
//! `Instant::now` use real time, and thread-local values are shared by all virtual threads. [`Check::run`] lists what a
//! test may depend on so that a seed reproduces its run.
//!
//! ```
//! use std::time::Duration;
//! use coreshard::testing::{Check, Fault, block_on, simulated};
//!
//! /// Asks until there is an answer, or `limit` has passed.
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

// For this crate's own tests: this module hides the crate of that name.
#[cfg(test)]
pub(crate) use ::testing::watch;

/// Lets other threads run first, if the test's schedule says so; does nothing outside a [`check`](check()). Place it
/// between accesses to a program's own shared atomics, but not where a lock of the standard library is held that
/// another thread wants.
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
///
/// fn add(total: &AtomicU32) {
///     let before = total.load(SeqCst);
///     coreshard::testing::preemption_point(); // another item may add here
///     total.store(before + 1, SeqCst);
/// }
/// # let total = AtomicU32::new(0);
/// # add(&total);
/// # assert_eq!(total.into_inner(), 1);
/// ```
pub fn preemption_point() {
    coreshard_sim::Sim::preemption_point();
}

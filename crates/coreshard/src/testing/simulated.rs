//! This crate's types and functions on the [test machine](TestMachine).
//!
//! It has all names of the crate's root, so a program can replace one module with the other. Inside
//! [`by_hand`](super::by_hand()) or [`check`](super::check()), they use a simulated machine and a runtime of the test.
//! Other code uses this machine and a runtime of this process. The code of the pools is the same in each case.
//!
//! The types differ from the types in the root: a [`simulated::Workqueue`](Workqueue) is a `Workqueue<TestMachine>`,
//! and [`coreshard::Workqueue`](crate::Workqueue) is a `Workqueue<Host>`, so the compiler rejects a program that mixes
//! them. [`block`], [`rt`] and [`insight`] always use this machine.
//!
//! ```
//! // In the root of a program:
//! mod queues {
//!     #[cfg(not(test))]
//!     pub use coreshard::*;
//!     #[cfg(test)]
//!     pub use coreshard::testing::simulated::*;
//! }
//! // Everywhere else in it:
//! use queues::Workqueue;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let queue: Workqueue = queues::workqueue()?.name("mail").build()?;
//! queue.queue(|| println!("on a worker"))?;
//! # Ok(()) }
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::TestMachine;
use crate::join::join_on;
use crate::join_all::{each, join_all_on};
use crate::own_process::Machine;

// These names hide the names in the root.
#[doc(no_inline)]
pub use crate::*;

/// [`coreshard::Workqueue`](crate::Workqueue) on the test machine.
pub type Workqueue = coreshard_workqueue::Workqueue<TestMachine>;
/// [`coreshard::Builder`](crate::Builder) on the test machine.
pub type Builder<'runtime> = coreshard_workqueue::Builder<'runtime, TestMachine>;
/// [`coreshard::Change`](crate::Change) on the test machine.
pub type Change = coreshard_workqueue::Change<TestMachine>;
/// [`coreshard::Work`](crate::Work) on the test machine.
pub type Work = coreshard_workqueue::Work<TestMachine>;
/// [`coreshard::EmbeddedWorks`](crate::EmbeddedWorks) on the test machine.
pub type EmbeddedWorks = coreshard_workqueue::EmbeddedWorks<TestMachine>;
/// [`coreshard::Periodic`](crate::Periodic) on the test machine.
pub type Periodic = coreshard_workqueue::Periodic<TestMachine>;
/// [`coreshard::JoinHandle`](crate::JoinHandle) on the test machine.
pub type JoinHandle<T> = coreshard_workqueue::JoinHandle<T, TestMachine>;
/// [`coreshard::CancelledItem`](crate::CancelledItem) on the test machine.
pub type CancelledItem<T> = coreshard_workqueue::CancelledItem<T, TestMachine>;
/// [`coreshard::JoinSet`](crate::JoinSet) on the test machine.
pub type JoinSet<T> = coreshard_workqueue::JoinSet<T, TestMachine>;
/// [`coreshard::WorkScope`](crate::WorkScope) on the test machine.
pub type WorkScope<'scope, 'env> = coreshard_workqueue::WorkScope<'scope, 'env, TestMachine>;
/// [`coreshard::ScopedJoinHandle`](crate::ScopedJoinHandle) on the test machine.
pub type ScopedJoinHandle<'scope, T> =
    coreshard_workqueue::ScopedJoinHandle<'scope, T, TestMachine>;
/// [`coreshard::Runtime`](crate::Runtime) on the test machine.
pub type Runtime = coreshard_workqueue::Runtime<TestMachine>;
/// [`coreshard::RuntimeBuilder`](crate::RuntimeBuilder) on the test machine.
pub type RuntimeBuilder = coreshard_workqueue::RuntimeBuilder<TestMachine>;
/// [`coreshard::Current`](crate::Current) on the test machine.
pub type Current = coreshard_workqueue::Current<TestMachine>;
/// [`coreshard::Team`](crate::Team) on the test machine.
pub type Team = coreshard_workqueue::Team<TestMachine>;
/// [`coreshard::TeamBuilder`](crate::TeamBuilder) on the test machine.
pub type TeamBuilder<'runtime> = coreshard_workqueue::TeamBuilder<'runtime, TestMachine>;
/// [`coreshard::TeamScope`](crate::TeamScope) on the test machine.
pub type TeamScope<'scope> = coreshard_workqueue::TeamScope<'scope, TestMachine>;
/// [`coreshard::CancellationToken`](crate::CancellationToken) on the test machine.
pub type CancellationToken = coreshard_workqueue::CancellationToken<TestMachine>;
/// [`coreshard::WaitForCancellation`](crate::WaitForCancellation) on the test machine.
pub type WaitForCancellation = coreshard_workqueue::WaitForCancellation<TestMachine>;
/// [`coreshard::Sleep`](crate::Sleep) on the test machine.
pub type Sleep = coreshard_workqueue::Sleep<TestMachine>;
/// [`coreshard::Timeout`](crate::Timeout) on the test machine.
pub type Timeout<F> = coreshard_workqueue::Timeout<F, TestMachine>;
/// [`coreshard::QueueAsync`](crate::QueueAsync) on the test machine.
pub type QueueAsync<'queue, F> = coreshard_workqueue::QueueAsync<'queue, F, TestMachine>;
/// [`coreshard::Reservation`](crate::Reservation) on the test machine.
pub type Reservation = coreshard_workqueue::Reservation<TestMachine>;
/// [`coreshard::ReserveAsync`](crate::ReserveAsync) on the test machine.
pub type ReserveAsync = coreshard_workqueue::ReserveAsync<TestMachine>;
/// [`coreshard::Blocking`](crate::Blocking) on the test machine.
pub type Blocking = coreshard_workqueue::Blocking<TestMachine>;
/// [`coreshard::ConsumeBudget`](crate::ConsumeBudget) on the test machine.
pub type ConsumeBudget = coreshard_workqueue::ConsumeBudget<TestMachine>;

/// [`coreshard::runtime`](crate::runtime()) on the test machine.
///
/// # Errors
/// As that one.
#[track_caller]
pub fn runtime() -> Result<&'static Runtime, RuntimeError> {
    TestMachine::runtime()
}

/// [`coreshard::configure`](crate::configure) on the test machine.
///
/// # Errors
/// As that one.
#[track_caller]
pub fn configure(
    settings: impl Fn(RuntimeBuilder) -> RuntimeBuilder + Send + Sync + 'static,
) -> Result<(), RuntimeError> {
    TestMachine::configure(Arc::new(settings))
}

/// [`coreshard::runtime_builder`](crate::runtime_builder) on the test machine.
///
/// # Errors
/// As that one.
pub fn runtime_builder() -> Result<RuntimeBuilder, RuntimeError> {
    TestMachine::runtime_builder()
}

/// [`coreshard::workqueue`](crate::workqueue()) on the test machine.
///
/// # Errors
/// As that one.
#[track_caller]
pub fn workqueue() -> Result<Builder<'static>, RuntimeError> {
    Ok(runtime()?.workqueue())
}

/// [`coreshard::team`](crate::team()) on the test machine.
///
/// # Errors
/// As that one.
#[track_caller]
pub fn team(name: impl Into<String>) -> Result<TeamBuilder<'static>, RuntimeError> {
    Ok(runtime()?.team(name))
}

/// [`coreshard::timeout`](crate::timeout()) on the test machine.
///
/// # Panics
/// As that one.
#[track_caller]
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    TestMachine::timeout(duration, future)
}

/// [`coreshard::join`](crate::join()) on the test machine.
#[inline(always)]
#[track_caller]
pub fn join<A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    join_on::<TestMachine, _, _>(a, b)
}

/// [`coreshard::join_all`](crate::join_all()) on the test machine.
#[track_caller]
pub fn join_all<T: Send, F: FnOnce() -> T + Send, const N: usize>(tasks: [F; N]) -> [T; N] {
    join_all_on::<TestMachine, T, F, N>(tasks)
}

/// [`coreshard::join_each`](crate::join_each()) on the test machine.
#[track_caller]
pub fn join_each<T: Send>(items: &mut [T], run: impl Fn(&mut T) + Sync) {
    each::<TestMachine, T>(items, &run);
}

/// [`coreshard::blocking`](crate::blocking) on the test machine.
pub fn blocking<R>(work: impl FnOnce() -> R) -> R {
    coreshard_workqueue::blocking::<TestMachine, R>(work)
}

/// [`coreshard::yield_item`](crate::yield_item) on the test machine.
pub fn yield_item() -> bool {
    coreshard_workqueue::yield_item::<TestMachine>()
}

/// [`coreshard::current`](crate::current) on the test machine.
pub fn current() -> Option<Current> {
    coreshard_workqueue::current::<TestMachine>()
}

/// [`coreshard::consume_budget`](crate::consume_budget) on the test machine.
pub fn consume_budget() -> ConsumeBudget {
    coreshard_workqueue::consume_budget::<TestMachine>()
}

/// [`coreshard::integration`](crate::integration) on the test machine.
pub mod integration {
    #[doc(no_inline)]
    pub use crate::integration::*;

    /// [`coreshard::integration::tower`](crate::integration::tower) on the test machine.
    #[cfg(feature = "tower")]
    pub mod tower {
        use super::super::TestMachine;
        use crate::integration::tower;
        #[doc(no_inline)]
        pub use crate::integration::tower::*;

        /// [`WorkqueueLayer`](crate::integration::tower::WorkqueueLayer) on the test machine.
        pub type WorkqueueLayer = tower::WorkqueueLayer<TestMachine>;
        /// [`WorkqueueFn`](crate::integration::tower::WorkqueueFn) on the test machine.
        pub type WorkqueueFn<F> = tower::WorkqueueFn<F, TestMachine>;
        /// [`WorkqueueService`](crate::integration::tower::WorkqueueService) on the test machine.
        pub type WorkqueueService<S> = tower::WorkqueueService<S, TestMachine>;
        /// [`ResponseFuture`](crate::integration::tower::ResponseFuture) on the test machine.
        pub type ResponseFuture<T, E> = tower::ResponseFuture<T, E, TestMachine>;
    }
}

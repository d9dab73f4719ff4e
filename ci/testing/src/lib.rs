//! Helpers shared by all tests of the workspace. A dev-dependency only.
//!
//! - [`watch!`]: a watchdog. *A failure is a failed test, never one that hangs.* If a test has not finished after
//!   [`limit`], the process ends and reports the test and its stack. Every file of integration tests has the line
//!   `testing::watch!();`, as has the root of every crate that has unit tests (checked by `ci/invariants.sh`).
//! - [`NEVER`], [`wait_until`], [`spin_until`], [`within`]: waits with a deadline, for a test that should fail alone, with
//!   its own message, while the other tests of its file continue.
//! - [`forked`]: runs a closure in a forked process, and reports how that ended.
//! - [`own_process!`]: runs a test in a separate process.
//! - [`skip`]: reports that a test could not run because the machine lacks a feature ([`Lack`]), and fails if the machine
//!   is declared to have it. The machine is queried for its features ([`has_membarrier`]); they are not inferred from a
//!   failure, which may have another cause.
//!
//! The watchdog covers the whole process, instead of a deadline at each wait, because most waits of these tests are
//! calls of the API (`join`, `scope`, `drain`, a drop), which have no deadline, and because a test that fails may hang
//! while it unwinds. A watchdog needs no line in a test, can inspect the threads, and works however the test binary is
//! run. The limits of the scripts in `ci/` cover programs that are not tests, and hangs outside of tests.
#![allow(
    unsafe_code,
    reason = "a function that runs before main, signals; each block says why it is sound"
)]

mod forks;
mod kernel;
mod lack;
mod own_process;
mod skips;
mod wait;
mod watchdog;

pub use forks::{Child, Side, end, fork, forked};
pub use kernel::has_membarrier;
pub use lack::Lack;
pub use own_process::is_own_process;
pub use skips::skip;
pub use wait::{NEVER, spin_until, wait_until, within};
pub use watchdog::{limit, start};

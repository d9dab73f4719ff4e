//! What all tests of the workspace share, as a dev-dependency: nothing that is shipped knows it.
//!
//! - [`watch!`]: a watchdog. *A failure is a failed test, never one that hangs.* Whatever a test waits for, it is
//!   over after [`limit`], or the process ends and says which test it was and where it stood. Every file of
//!   integration tests has the line `testing::watch!();`, and so has the root of every crate that has unit tests
//!   (`ci/invariants.sh` looks).
//! - [`NEVER`], [`wait_until`], [`spin_until`], [`within`]: waits with a deadline, for a test that would rather fail alone, with a
//!   message of its own, while the others of its file go on.
//! - [`forked`]: runs something in a forked process, and says how that ended.
//! - [`own_process!`]: runs a test in a process of its own.
//! - [`skip`]: says that a test has not tested what it is for, since the machine lacks something ([`Lack`]), and
//!   fails where the machine is said to have it. What the machine has is asked of it ([`has_membarrier`]), not concluded
//!   from something that may fail for another reason too.
//!
//! Why a watchdog for the process, and not a deadline at each wait: most waits of these tests are the API's own
//! (`join`, `scope`, `drain`, a drop), which have no deadline, and a test that fails may hang while it unwinds. A
//! deadline that each test has to ask for is one that the next test lacks. A watchdog needs no line in a test, can
//! look at the threads as they stand, and works however the test binary is run; the limits of the scripts in `ci/`
//! stand behind it, for what is no test or hangs outside of one.
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

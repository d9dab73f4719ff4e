//! Waits for a future on a thread of a test.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use coreshard_platform::Parker;

use crate::test_machine::TestMachine;

struct Unpark(Parker<TestMachine>);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future`, and returns its output. It is like `block_on` of other executors, but the simulated machine
/// knows its wait. For the test's thread.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use coreshard::testing::{block_on, check, simulated};
///
/// check(|| {
///     let queue = simulated::workqueue().unwrap().name("answers").build().unwrap();
///     let task = queue.spawn(async { 42 }).unwrap();
///     let answer = block_on(simulated::timeout(Duration::from_secs(1), task));
///     assert_eq!(answer.unwrap(), 42);
/// });
/// ```
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let parked = Arc::new(Unpark(Parker::new()));
    let waker = Waker::from(Arc::clone(&parked));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        parked.0.park();
    }
}

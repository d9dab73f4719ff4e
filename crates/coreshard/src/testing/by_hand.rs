//! Tests that run items one by one.

use std::marker::PhantomData;
use std::panic;
use std::time::Duration;

use coreshard_sim::{Machine, Sim};
use coreshard_topology::Topology;

use super::left_behind;
use super::run::{How, Outcome, Settings, run};

/// Maximum real time without progress.
const PATIENCE: Duration = Duration::from_secs(10);

/// Virtual time is a `u64` in picoseconds. The limit is far from its maximum.
const LONGEST: Duration = Duration::from_secs(50 * 24 * 3_600);

/// Runs a program's items in a test; see [`by_hand`].
#[derive(Debug)]
pub struct Hand {
    /// Not `Send`: it belongs to the test's thread.
    _of_this_thread: PhantomData<*const ()>,
}

/// Calls `test` with a [`Hand`], which runs the items of its queues. No item runs and no time passes otherwise.
///
/// Inside `test`, everything in [`simulated`](super::simulated) belongs to a simulated machine with one CPU and its own
/// clock, including the process's runtime, which starts and ends with the test. The code of the pools is that of the
/// crate's root.
///
/// When the test's thread waits ([`JoinHandle::join`](crate::JoinHandle::join),
/// [`Workqueue::scope`](crate::Workqueue::scope), dropping a queue), items start one after the other until the wait
/// ends. Time does not pass meanwhile.
///
/// # Panics
/// With the panic of `test`. If it waits for something that cannot happen: the message lists what each thread waits
/// for, with source locations. If an item panicked and the panic was not reported. If queues are left at the end. If
/// there is no progress for 10 s of real time, as when an item waits with means outside this crate.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
/// use std::time::Duration;
///
/// use coreshard::testing::simulated;
///
/// coreshard::testing::by_hand(|hand| {
///     let queue = simulated::workqueue().unwrap().name("mail").build().unwrap();
///     let sent = Arc::new(AtomicU32::new(0));
///     let counter = Arc::clone(&sent);
///     let flush = simulated::Work::new(move |_work| drop(counter.fetch_add(1, SeqCst)));
///
///     flush.queue(&queue).unwrap();
///     assert_eq!((hand.queued(), sent.load(SeqCst)), (1, 0));
///     assert!(hand.tick());
///     assert_eq!((hand.queued(), sent.load(SeqCst)), (0, 1));
///
///     flush.queue_after(&queue, Duration::from_secs(3_600)).unwrap();
///     hand.advance(Duration::from_secs(3_599));
///     assert_eq!(sent.load(SeqCst), 1);
///     hand.advance(Duration::from_secs(1));
///     assert_eq!(sent.load(SeqCst), 2);
///     assert_eq!(hand.now(), Duration::from_secs(3_600));
/// });
/// ```
#[track_caller]
pub fn by_hand<R: Send + 'static>(test: impl FnOnce(&Hand) -> R + Send + 'static) -> R {
    let topology = Topology::from_synthetic("pu:1").expect("it is a description of a machine");
    let machine = Machine::with_round_costs(topology).expect("one CPU can be simulated");
    let program = move || {
        let result = test(&Hand { _of_this_thread: PhantomData });
        tell_of_panics();
        result
    };
    match run(Settings { machine, patience: PATIENCE, how: How::ByHand }, program) {
        Outcome::Over { value: Err(payload), .. } => panic::resume_unwind(payload),
        Outcome::Over { value: Ok(value), left_behind, summary } => {
            if let Some(left_behind) = left_behind {
                panic!("{left_behind}");
            }
            if let Some(panic) = summary.unheard_panics.first() {
                panic!("{panic}");
            }
            value
        }
        Outcome::Failed { what, .. } => panic!("{what}"),
    }
}

/// Panics with the unreported panics of items.
#[track_caller]
fn tell_of_panics() {
    if let Some(panic) = Sim::take_unheard_panics().first() {
        panic!("{panic}");
    }
}

impl Hand {
    /// Runs one queued item, the first that a worker has reached. An item that waits for others runs until it needs one
    /// that it cannot run itself while it waits. Returns false if there is none.
    ///
    /// # Panics
    /// Inside an item, as all methods except [`queued`](Self::queued) and [`now`](Self::now). If the item panicked and
    /// the panic was not reported.
    #[track_caller]
    pub fn tick(&self) -> bool {
        let ran = Sim::let_run(1, Duration::ZERO) > 0;
        tell_of_panics();
        ran
    }

    /// Runs items, including the items that they queue, until none can run. Returns how many started.
    ///
    /// # Panics
    /// As [`tick`](Self::tick).
    #[track_caller]
    pub fn run_until_idle(&self) -> u64 {
        let ran = Sim::let_run(u64::MAX, Duration::ZERO);
        tell_of_panics();
        ran
    }

    /// Advances virtual time. Queued items run now, and delayed, periodic, sleeping and timed-out ones run in order at
    /// their times. Returns how many items started.
    ///
    /// # Panics
    /// As [`tick`](Self::tick), and if more than 50 days would have passed since the start.
    #[track_caller]
    pub fn advance(&self, duration: Duration) -> u64 {
        let (now, longest) = (self.now(), LONGEST);
        assert!(
            now.saturating_add(duration) <= longest,
            "invalid duration {duration:?}: expected at most {longest:?} in total, and {now:?} have passed"
        );
        let ran = Sim::let_run(u64::MAX, duration);
        tell_of_panics();
        ran
    }

    /// Returns the virtual time since the test's start: the sum of [`advance`](Self::advance).
    #[must_use]
    pub fn now(&self) -> Duration {
        Sim::virtual_time()
    }

    /// Returns the number of queued items that have not started. Delayed items do not count; see
    /// [`delayed`](Self::delayed).
    #[must_use]
    pub fn queued(&self) -> u64 {
        Sim::queued_items()
    }

    /// Returns the number of delayed items and sleeping futures of the process's runtime.
    #[must_use]
    pub fn delayed(&self) -> usize {
        left_behind::delayed()
    }
}

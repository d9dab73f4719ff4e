//! A test that runs its program's items by hand.

use std::marker::PhantomData;
use std::panic;
use std::time::Duration;

use coreshard_sim::{Machine, Sim};
use coreshard_topology::Topology;

use super::left_behind;
use super::run::{How, Outcome, Settings, run};

/// How long nothing may go on, of real time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Virtual time is counted in picoseconds, of which a `u64` has so many, and is kept far from its end.
const LONGEST: Duration = Duration::from_secs(50 * 24 * 3_600);

/// Runs a program's items in a test; see [`by_hand`].
#[derive(Debug)]
pub struct Hand {
    /// Of the test's own thread.
    _of_this_thread: PhantomData<*const ()>,
}

/// Calls `test` with a [`Hand`], by which it runs the items of its queues: none runs by itself, and no time passes.
///
/// Inside of `test`, queues, runtimes, tasks, timeouts and all else of [`simulated`](super::simulated) are of a simulated machine
/// with one CPU and a clock of its own; so is the process's runtime, which begins and ends with the test. The code of the pools
/// is that of the crate's root.
///
/// A wait of the test's own thread ([`JoinHandle::join`](crate::JoinHandle::join), [`Workqueue::scope`](crate::Workqueue::scope),
/// the drop of a queue) lets items begin until it is over, one after the other; time does not pass meanwhile.
///
/// # Panics
/// With what `test` threw. Where it waits for what cannot come: the message tells what each thread waits for, and
/// where in the source. Where an item panicked that nobody asked to hear of. Where queues are left at the
/// end. Where nothing goes on for 10 s of real time: an item waits by something that is not of this crate.
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

/// A panic that nobody heard of is the test's to hear.
#[track_caller]
fn tell_of_panics() {
    if let Some(panic) = Sim::take_unheard_panics().first() {
        panic!("{panic}");
    }
}

impl Hand {
    /// Runs one item that is queued: the first one that a worker has come to. An item that waits for others runs as
    /// far as it comes without them, or with those that it runs itself while it waits. False if there is none.
    ///
    /// # Panics
    /// Inside of an item, as all methods but [`queued`](Self::queued) and [`now`](Self::now). Where the item panicked and
    /// nobody hears of that.
    #[track_caller]
    pub fn tick(&self) -> bool {
        let ran = Sim::let_run(1, Duration::ZERO) > 0;
        tell_of_panics();
        ran
    }

    /// Runs items until none is queued that can run now, those that they queue among them. Returns how many began.
    ///
    /// # Panics
    /// As [`tick`](Self::tick).
    #[track_caller]
    pub fn run_until_idle(&self) -> u64 {
        let ran = Sim::let_run(u64::MAX, Duration::ZERO);
        tell_of_panics();
        ran
    }

    /// Lets so much virtual time pass: what is queued runs now, and what is delayed, periodic, asleep or timed out by
    /// then runs at its moment, in the order of time. Returns how many items began.
    ///
    /// # Panics
    /// As [`tick`](Self::tick), and where more than 50 days would have passed since the start.
    #[track_caller]
    pub fn advance(&self, duration: Duration) -> u64 {
        let (now, longest) = (self.now(), LONGEST);
        assert!(
            now.saturating_add(duration) <= longest,
            "a test by hand can let {longest:?} pass in all; {now:?} have passed, and {duration:?} are asked for"
        );
        let ran = Sim::let_run(u64::MAX, duration);
        tell_of_panics();
        ran
    }

    /// Virtual time since the test's start: what [`advance`](Self::advance) was asked for so far.
    #[must_use]
    pub fn now(&self) -> Duration {
        Sim::virtual_time()
    }

    /// Items that are queued and have not begun. What waits for its time is not among them: see
    /// [`delayed`](Self::delayed).
    #[must_use]
    pub fn queued(&self) -> u64 {
        Sim::queued_items()
    }

    /// Items and futures of the process's runtime that wait for their time.
    #[must_use]
    pub fn delayed(&self) -> usize {
        left_behind::delayed()
    }
}

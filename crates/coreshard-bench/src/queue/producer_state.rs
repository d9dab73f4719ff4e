//! State that a producer and its items share.
//!
//! An item's work is to move a word here: little, but real, and it tells its producer that it ran. Access
//! rules:
//!
//! - `I:` written by items, on any worker; `P:` written by the producer.
//! - Words that items write are on their own lines, and all words that one item writes are on the same line,
//!   so that the producer pays for one transfer.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Parker, Platform, Time, WatchLength, fields};

/// No target: no count of items ever reaches it.
const NEVER: u64 = u64::MAX;

/// The number of samples that share one or two lines.
const SAMPLES_TOGETHER: usize = 16;

struct WakeUp<P: Platform> {
    /// I: the number of items that ran so far.
    ran: P::AtomicU64,
    /// I: when the last timed item ran, in nanoseconds of the platform's clock.
    ran_at_ns: P::AtomicU64,
    /// I, P: the producer sleeps here.
    parker: Parker<P>,
}
fields!(WakeUp<P: Platform> { ran, ran_at_ns, parker });

/// The words of one producer. It outlives every item, see [`producer_states`].
pub(super) struct ProducerState<P: Platform> {
    wake_up: Padded<WakeUp<P>>,
    /// P: the count of items at which the producer wants to be woken. Items of a flood read it, and it is
    /// rarely written.
    target: Padded<P::AtomicU64>,
    /// I: by sample, the time of a flood's item from before queueing until it ran. Its offset within a line
    /// is the same in each run.
    flood_samples_ns: Box<[Padded<[P::AtomicU64; SAMPLES_TOGETHER]>]>,
    flood_samples: usize,
    /// How long each item computes, in nanoseconds.
    item_work_ns: u64,
}
fields!(ProducerState<P: Platform> { wake_up, target, flood_samples_ns, flood_samples, item_work_ns });

/// Creates states for `producers` producers, for the rest of the process.
///
/// Items must be `'static`. A counted reference in each would cost more than the measured queue, since it
/// would be incremented and decremented on two CPUs. So the states are leaked, once for each benchmark: a few
/// cache lines per producer, and in a flood its samples.
pub(super) fn producer_states<P: Platform>(
    producers: usize,
    flood_samples: usize,
    item_work: Duration,
) -> &'static [ProducerState<P>] {
    let state = || ProducerState {
        wake_up: Padded::new(WakeUp {
            ran: P::AtomicU64::new(0),
            ran_at_ns: P::AtomicU64::new(0),
            parker: Parker::new(),
        }),
        target: Padded::new(P::AtomicU64::new(NEVER)),
        flood_samples_ns: (0..flood_samples.div_ceil(SAMPLES_TOGETHER))
            .map(|_| Padded::new(std::array::from_fn(|_| P::AtomicU64::new(0))))
            .collect(),
        flood_samples,
        item_work_ns: u64::try_from(item_work.as_nanos()).unwrap_or(u64::MAX),
    };
    let states: &[ProducerState<P>] =
        P::leak(|| (0..producers).map(|_| state()).collect::<Vec<_>>());
    for state in states {
        P::describe(&raw const *state);
        P::describe(&raw const *state.wake_up);
    }
    states
}

impl<P: Platform> ProducerState<P> {
    /// Returns the number of items that ran so far.
    pub(super) fn ran(&self) -> u64 {
        self.wake_up.ran.load(Acquire)
    }

    /// Computes for the requested duration, if any.
    #[inline]
    fn compute(&self) {
        if self.item_work_ns > 0 {
            let start = P::now();
            while P::now().ns_since(start) < self.item_work_ns {
                P::spin_hint();
            }
        }
    }

    /// The work of an item whose producer waits for it.
    #[inline]
    pub(super) fn run_awaited(&self) {
        self.compute();
        self.wake_up.ran.fetch_add(1, Relaxed);
        self.wake_up.ran_at_ns.store(P::now().as_ns(), Relaxed);
        // Publishes both words to the producer that takes the permit.
        self.wake_up.parker.unpark();
    }

    /// The work of an item of a flood.
    #[inline]
    pub(super) fn run_in_flood(&self) {
        self.compute();
        // SeqCst, pairs with the producer's in `wait_for`: either this item sees the target, or the producer
        // sees this item.
        let ran = self.wake_up.ran.fetch_add(1, SeqCst) + 1;
        if ran == self.target.load(SeqCst) {
            self.wake_up.parker.unpark();
        }
    }

    /// As [`run_in_flood`](Self::run_in_flood), for an item that is timed.
    pub(super) fn run_sampled(&self, sample: usize, queued_at: Time) {
        // Published by the count that follows.
        self.sample_ns(sample).store(P::now().ns_since(queued_at), Release);
        self.run_in_flood();
    }

    /// Returns the sample that [`run_sampled`](Self::run_sampled) stored.
    pub(super) fn flood_sample_ns(&self, sample: usize) -> u64 {
        self.sample_ns(sample).load(Acquire)
    }

    fn sample_ns(&self, sample: usize) -> &P::AtomicU64 {
        &self.flood_samples_ns[sample / SAMPLES_TOGETHER][sample % SAMPLES_TOGETHER]
    }

    /// Returns how many samples a flood may store here.
    pub(super) fn flood_samples(&self) -> usize {
        self.flood_samples
    }
}

/// The producer's side: how it waits.
pub(super) struct Waiter<P: Platform> {
    state: &'static ProducerState<P>,
    /// How long it spins for an event from another CPU, learned like a worker's spinning. If the event comes
    /// from a worker that needs this very CPU, it sleeps at once.
    watch: Option<WatchLength>,
}

impl<P: Platform> Waiter<P> {
    pub(super) fn new(state: &'static ProducerState<P>, watches: bool) -> Self {
        Self { state, watch: watches.then_some(WatchLength::NEW) }
    }

    /// Waits for the one item that is outstanding, and returns when it ran.
    #[inline]
    pub(super) fn wait_for_item(&mut self) -> Time {
        let WakeUp { parker, ran_at_ns, .. } = &*self.state.wake_up;
        self.wait(|| parker.has_permit() && parker.try_take(), || parker.park());
        Time::from_ns(ran_at_ns.load(Relaxed))
    }

    /// Waits until the count of items that ran has reached `target`.
    pub(super) fn wait_for(&mut self, target: u64) {
        let ProducerState { wake_up, target: wanted, .. } = self.state;
        let sleep = || {
            wanted.store(target, SeqCst);
            // The permit may belong to an earlier target, so the count decides.
            while wake_up.ran.load(SeqCst) < target {
                wake_up.parker.park();
            }
            wanted.store(NEVER, Relaxed);
        };
        self.wait(|| wake_up.ran.load(Acquire) >= target, sleep);
    }

    /// Spins until `done` returns true or the spin no longer pays off, and then sleeps.
    fn wait(&mut self, done: impl Fn() -> bool, sleep: impl FnOnce()) {
        let Some(length) = &mut self.watch else { return sleep() };
        let seen = done() || length.watch::<P>(done);
        length.watched(seen);
        if !seen {
            let since = P::now();
            sleep();
            length.slept(P::now() - since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coreshard_platform::{Host, ThreadHandle, ThreadSpec};

    #[test]
    fn a_producer_waits_for_each_item_and_hears_when_it_ran() {
        let [state] = producer_states::<Host>(1, 0, Duration::ZERO) else { panic!("one state") };
        let mut waiter = Waiter::new(state, true);
        let mut last = Host::now();
        for item in 1..=2_000 {
            let run = Box::new(|| state.run_awaited());
            let worker = (item % 2 == 0).then(|| Host::spawn(ThreadSpec::default(), run).unwrap());
            if worker.is_none() {
                state.run_awaited();
            }
            let ran_at = waiter.wait_for_item();
            assert!(ran_at >= last && ran_at <= Host::now());
            assert_eq!(state.ran(), item);
            last = ran_at;
            if let Some(worker) = worker {
                worker.join();
            }
        }
    }

    #[test]
    fn a_flood_wakes_its_producer_at_the_target_whoever_comes_first() {
        let [state] = producer_states::<Host>(1, 1, Duration::ZERO) else { panic!("one state") };
        let mut waiter = Waiter::new(state, true);
        for round in 0..200 {
            let worker = move || (0..100).for_each(|_| state.run_in_flood());
            let worker = Host::spawn(ThreadSpec::default(), Box::new(worker)).unwrap();
            waiter.wait_for(round * 100 + 50);
            assert!(state.ran() >= round * 100 + 50);
            waiter.wait_for(round * 100 + 100);
            assert_eq!(state.ran(), round * 100 + 100);
            worker.join();
        }
        state.run_sampled(0, Time::default());
        assert!(state.flood_sample_ns(0) > 0);
    }
}

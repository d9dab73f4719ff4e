//! Counters of a device's requests, in several layouts.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, NodeMemoryError, Padded, Platform, fields};
use coreshard_topology::{NodeId, ParseNameError, input::quoted};

use crate::node_slice::NodeSlice;

/// How a device's counters are laid out in memory. The oldest variant comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CounterLayout {
    /// Side by side in one line, as Linux' SCSI devices had them: issuing and completing threads contend for
    /// it.
    Packed,
    /// Each on its own lines.
    Padded,
    /// Each thread counts on its own line, without a locked instruction. Reading sums all lines.
    #[default]
    PerCpu,
}

impl CounterLayout {
    /// All variants, the oldest first.
    pub const ALL: [Self; 3] = [Self::Packed, Self::Padded, Self::PerCpu];
}

impl fmt::Display for CounterLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Packed => "packed",
            Self::Padded => "padded",
            Self::PerCpu => "per-cpu",
        })
    }
}

/// The error when a text does not name a [`CounterLayout`].
pub type ParseCounterLayoutError = ParseNameError;

impl FromStr for CounterLayout {
    type Err = ParseCounterLayoutError;

    fn from_str(text: &str) -> Result<Self, ParseCounterLayoutError> {
        let found = Self::ALL.into_iter().find(|layout| layout.to_string() == text);
        let names = "packed, padded or per-cpu";
        found.ok_or_else(|| {
            ParseNameError::new(format!(
                "invalid counter layout {}: expected {names}",
                quoted(text)
            ))
        })
    }
}

/// Sums of a device's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests handed to the device; retries are not counted again.
    pub issued: u64,
    /// Requests that have ended, successfully or not.
    pub done: u64,
    /// The part of `done` that failed, including timeouts.
    pub errors: u64,
    /// The part of `errors` that exceeded their timeout.
    pub timeouts: u64,
}

/// Four counters, side by side.
#[derive(Debug)]
#[repr(C)]
struct CounterLine<P: Platform> {
    issued: P::AtomicU64,
    done: P::AtomicU64,
    errors: P::AtomicU64,
    timeouts: P::AtomicU64,
}
fields!(CounterLine<P: Platform> { issued, done, errors, timeouts });

impl<P: Platform> CounterLine<P> {
    fn new() -> Self {
        let zero = || P::AtomicU64::new(0);
        Self { issued: zero(), done: zero(), errors: zero(), timeouts: zero() }
    }

    #[inline(always)]
    fn counter(&self, which: Counter) -> &P::AtomicU64 {
        match which {
            Counter::Issued => &self.issued,
            Counter::Done => &self.done,
            Counter::Errors => &self.errors,
            Counter::Timeouts => &self.timeouts,
        }
    }
}

/// One of a device's counters.
#[derive(Clone, Copy)]
enum Counter {
    Issued,
    Done,
    Errors,
    Timeouts,
}

/// A device's counters, for a fixed number of threads.
///
/// A sum includes every event that happens before the read, and counts none twice. `done` never reads as more
/// than `issued`.
#[derive(Debug)]
pub struct DeviceCounters<P: Platform> {
    layout: CounterLayout,
    /// Packed: one line. Padded: one line for each counter, which uses its own field there. Per CPU: one line
    /// for each thread.
    lines: NodeSlice<Padded<CounterLine<P>>>,
    /// 1 for each thread whose counters are taken, since they have one owner.
    taken: NodeSlice<P::AtomicU32>,
}

impl<P: Platform> DeviceCounters<P> {
    /// Creates counters at zero for `threads` threads (at least one), on `node` if it is known.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(
        layout: CounterLayout,
        threads: usize,
        node: Option<NodeId>,
    ) -> Result<Self, NodeMemoryError> {
        let threads = threads.max(1);
        let lines = match layout {
            CounterLayout::Packed => 1,
            CounterLayout::Padded => 4,
            CounterLayout::PerCpu => threads,
        };
        let lines = NodeSlice::new::<P>(lines, node, |_| Padded::new(CounterLine::new()))?;
        let taken = NodeSlice::new::<P>(threads, node, |_| P::AtomicU32::new(0))?;
        lines.iter().for_each(|line| P::describe::<CounterLine<P>>(&raw const **line));
        Ok(Self { layout, lines, taken })
    }

    /// Returns the layout.
    pub fn layout(&self) -> CounterLayout {
        self.layout
    }

    /// Returns the counters of thread number `thread`.
    ///
    /// Returns `None` if there is no such number, or if they are taken: they have one owner.
    pub fn for_thread(self: &Arc<Self>, thread: usize) -> Option<ThreadCounters<P>> {
        let flag = self.taken.get(thread)?;
        // Acquire pairs with the Release of the last owner's drop: its plain stores have finished.
        (flag.swap(1, Acquire) == 0).then(|| ThreadCounters {
            counters: Arc::clone(self),
            thread,
            one_thread: PhantomData,
        })
    }

    /// Returns the sums. With [`CounterLayout::PerCpu`], reads one line per thread.
    pub fn read(&self) -> Counts {
        // `done` before `issued`: finished requests were issued before, so the sums are consistent. Acquire
        // pairs with the Release of `done`.
        let sum = |which| self.lines.iter().map(|line| line.counter(which).load(Acquire)).sum();
        let [timeouts, errors] = [sum(Counter::Timeouts), sum(Counter::Errors)];
        let done = sum(Counter::Done);
        Counts { timeouts, errors, done, issued: sum(Counter::Issued) }
    }
}

/// One thread's access to a device's counters. It can be moved to another thread, but not shared.
#[derive(Debug)]
pub struct ThreadCounters<P: Platform> {
    counters: Arc<DeviceCounters<P>>,
    thread: usize,
    /// Not `Sync`: the per-CPU layout uses no locked instruction.
    one_thread: PhantomData<std::cell::Cell<()>>,
}

/// How a request ended, for the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request succeeded.
    Success,
    /// The request failed with an error other than a timeout.
    Failed,
    /// The request exceeded its timeout.
    TimedOut,
}

impl<P: Platform> ThreadCounters<P> {
    #[inline(always)]
    fn bump(&self, which: Counter) {
        // Release pairs with the Acquire of `read`: a sum of `done` comes with its `issued`.
        let DeviceCounters { layout, lines, .. } = &*self.counters;
        match layout {
            CounterLayout::Packed => {
                lines[0].counter(which).fetch_add(1, Release);
            }
            CounterLayout::Padded => {
                lines[which as usize].counter(which).fetch_add(1, Release);
            }
            CounterLayout::PerCpu => {
                // This thread is the only writer, so no locked instruction is needed.
                let counter = lines[self.thread].counter(which);
                counter.store(counter.load(Relaxed).wrapping_add(1), Release);
            }
        }
    }

    /// Counts a request that is handed to the device.
    #[inline]
    pub fn issued(&self) {
        self.bump(Counter::Issued);
    }

    /// Counts a request that ended.
    #[inline]
    pub fn done(&self, ended: Outcome) {
        self.bump(Counter::Done);
        if ended != Outcome::Success {
            self.failed(ended);
        }
    }

    #[cold]
    fn failed(&self, ended: Outcome) {
        self.bump(Counter::Errors);
        if ended == Outcome::TimedOut {
            self.bump(Counter::Timeouts);
        }
    }
}

impl<P: Platform> Drop for ThreadCounters<P> {
    fn drop(&mut self) {
        self.counters.taken[self.thread].store(0, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use coreshard_platform::Host;

    #[test]
    fn sums_are_exact_and_at_rest_issued_is_done() {
        for layout in CounterLayout::ALL {
            let counters = Arc::new(DeviceCounters::<Host>::new(layout, 3, None).unwrap());
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let own = counters.for_thread(thread).unwrap();
                    std::thread::spawn(move || {
                        for request in 0..10_000 {
                            own.issued();
                            own.done(match request % 10 {
                                0 => Outcome::Failed,
                                1 => Outcome::TimedOut,
                                _ => Outcome::Success,
                            });
                        }
                    })
                })
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                let counts = counters.read();
                assert!(counts.done <= counts.issued, "{layout}: {counts:?}");
                assert!(counts.timeouts <= counts.errors && counts.errors <= counts.done);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            let wanted = Counts { issued: 30_000, done: 30_000, errors: 6_000, timeouts: 3_000 };
            assert_eq!(counters.read(), wanted, "{layout}");
        }
    }

    #[test]
    fn a_thread_s_counters_have_one_owner() {
        let counters =
            Arc::new(DeviceCounters::<Host>::new(CounterLayout::PerCpu, 2, None).unwrap());
        let own = counters.for_thread(1).unwrap();
        assert!(counters.for_thread(1).is_none() && counters.for_thread(2).is_none());
        drop(own);
        assert!(counters.for_thread(1).is_some());
    }

    #[test]
    fn layouts_are_read_as_they_are_written() {
        for layout in CounterLayout::ALL {
            assert_eq!(layout.to_string().parse(), Ok(layout));
        }
        let error = "percpu".parse::<CounterLayout>().unwrap_err().to_string();
        assert_eq!(error, "invalid counter layout \"percpu\": expected packed, padded or per-cpu");
    }

    #[test]
    fn only_the_packed_counters_share_lines() {
        assert!(size_of::<CounterLine<Host>>() <= 64);
        let lines = |layout| DeviceCounters::<Host>::new(layout, 3, None).unwrap().lines.len();
        assert_eq!(CounterLayout::ALL.map(lines), [1, 4, 3]);
        assert_eq!(size_of::<Padded<CounterLine<Host>>>(), 128);
    }
}

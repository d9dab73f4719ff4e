//! Results of `calibrate`.

use serde::{Deserialize, Serialize};

/// A figure measured several times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The median.
    pub median_ns: f64,
    /// The minimum.
    pub min_ns: f64,
    /// The maximum.
    pub max_ns: f64,
    /// Number of samples.
    pub samples: usize,
}

/// The CPUs that contend for one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Contenders {
    /// One CPU of each core, package by package; then the others.
    #[default]
    CoresFirst,
    /// All CPUs of one core.
    Siblings,
    /// As many cores of each package, in turn.
    Packages,
}

/// CPUs that contend for one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contended {
    /// The choice of the CPUs.
    #[serde(default)]
    pub contenders: Contenders,
    /// Threads, each on its own CPU.
    pub threads: usize,
    /// A fetch-and-add, per operation and thread.
    pub add: Figure,
    /// An increment by a compare-exchange loop, per operation and thread.
    pub compare_exchange: Figure,
    /// The same with a pause after each failed attempt.
    #[serde(default)]
    pub paused_exchange: Figure,
    /// A swap, per operation and thread.
    #[serde(default)]
    pub swap: Figure,
    /// A ticket lock around a counter, per operation and thread.
    #[serde(default)]
    pub ticket_lock: Figure,
    /// The platform's lock around a counter, per operation and thread.
    #[serde(default)]
    pub mutex: Figure,
}

/// The measurements of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The numbers of the CPUs, in the order of `latency`.
    pub cpus: Vec<u32>,
    /// By pairs of CPUs: half a round trip of a compare-exchange ping-pong; `None` for the same CPU.
    pub latency: Vec<Vec<Option<Figure>>>,
    /// A load that depends on the preceding load and hits the first-level cache.
    pub load: Figure,
    /// A fetch-and-add on a line that the CPU owns.
    pub atomic: Figure,
    /// A spin iteration without its load.
    pub spin_hint: Figure,
    /// Reading the clock.
    pub clock_read: Figure,
    /// A load of a line that is in no cache.
    pub memory: Figure,
    /// Contended operations, for one to all CPUs.
    pub contended: Vec<Contended>,
    /// The time of a computation; `None` if it takes none.
    #[serde(default)]
    pub clocks: Option<Clocks>,
    /// A wake-up without a waiter, which is one of the cheapest system calls.
    pub wake_nobody: Figure,
    /// A wait that returns at once, since the word has changed.
    pub wait_refused: Figure,
    /// A wake-up of a thread on the caller's CPU.
    pub wake_here: Figure,
    /// A wake-up of a thread on another CPU, which is busy with a lower-priority task; `None` with one CPU.
    #[serde(default)]
    pub wake_busy: Option<Figure>,
    /// A wake-up of a thread on an idle CPU; `None` with one CPU.
    pub wake_there: Option<Figure>,
    /// Time from such a wake-up until the thread runs, on a CPU idle for 20 microseconds.
    #[serde(default)]
    pub woken_after_brief_rest: Option<Figure>,
    /// The same after other idle times, each with its length in nanoseconds, in ascending order.
    #[serde(default)]
    pub woken_after_rests_between: Vec<(f64, Figure)>,
    /// The same after 0.2 milliseconds.
    pub woken_after_short_rest: Option<Figure>,
    /// The same after five milliseconds.
    pub woken_after_long_rest: Option<Figure>,
    /// A context switch: time per yield between two threads on one CPU, minus the system call.
    pub context_switch: Figure,
    /// Additional time of a wait with a timeout.
    #[serde(default)]
    pub timer: Option<Figure>,
    /// Time to start a thread, until the call returns.
    pub spawn: Figure,
    /// Time slice of a thread while another waits for its CPU; `None` if no thread waited.
    #[serde(default)]
    pub slice: Option<Figure>,
    /// Uncontended lines written by another CPU; `None` with one CPU.
    #[serde(default)]
    pub fetched: Option<Fetched>,
    /// The variation of costs.
    #[serde(default)]
    pub variation: Option<Variation>,
}

/// The time of one computation of some milliseconds, three instructions a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// On one CPU, while the others are idle.
    pub alone: Figure,
    /// On one CPU of each core at once, relative to that; the ratio of each round, so without a unit.
    pub cores: Figure,
    /// On all CPUs at once, relative to one of each core; `None` if cores have one CPU.
    pub siblings: Option<Figure>,
}

/// Lines written by the first CPU and fetched by the second in succession, per line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetched {
    /// A load.
    pub load: Figure,
    /// A load of the second line of an aligned pair, after all first lines have arrived.
    pub load_of_pair: Figure,
    /// A fetch-and-add.
    pub add: Figure,
    /// A load, and a dependent fetch-and-add of the same word.
    pub load_and_add: Figure,
    /// A store, with as many in flight as the CPU supports.
    pub store: Figure,
}

impl Fetched {
    /// Returns true if a load of a written line takes ownership, so that a following add hits. The add then costs less
    /// than half of one that fetches its line.
    #[must_use]
    pub fn loads_take_dirty_lines(&self) -> bool {
        self.load_and_add.median_ns - self.load.median_ns < self.add.median_ns / 2.0
    }

    /// Returns true if fetching a line also fetches the other line of its pair, which then saves a third.
    #[must_use]
    pub fn pairs_come_together(&self) -> bool {
        self.load_of_pair.median_ns < self.load.median_ns / 1.5
    }

    /// Returns the number of stores in flight, from 1 to 64.
    #[must_use]
    pub fn stores_at_once(&self) -> u32 {
        (self.add.median_ns / self.store.median_ns.max(0.1)).round().clamp(1.0, 64.0) as u32
    }
}

/// The variation of costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// Number of compared calls.
    pub samples: usize,
    /// Costs of waking calls relative to the median, at each of [`AT_PERCENT`](Self::AT_PERCENT) of all.
    pub calls: [f64; 6],
    /// The same for the time until a thread woken on an idle CPU runs.
    pub exits: [f64; 6],
    /// Interruptions of a thread that watched the clock.
    pub interruptions: u64,
    /// Time between interruptions, in nanoseconds; 0 without interruptions.
    pub interrupted_every_ns: f64,
    /// Duration of an interruption, in nanoseconds.
    pub interrupted_for_ns: f64,
}

impl Variation {
    /// The percentages of all samples.
    pub const AT_PERCENT: [usize; 6] = [5, 25, 50, 75, 95, 99];
}

/// Costs for simulations in nanoseconds, derived from a [`Calibration`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// A system call: `wake_nobody`.
    pub syscall_ns: f64,
    /// Finding the waiters of a word: `wait_refused` − `wake_nobody`.
    pub futex_ns: f64,
    /// Making a thread runnable: `wake_here` − `wait_refused`.
    pub wake_ns: f64,
    /// Additional cost of waking a thread on another CPU: `wake_busy` − `wake_here`.
    #[serde(default)]
    pub wake_remote_ns: f64,
    /// Sending an interrupt to an idle CPU: `wake_there` − `wake_busy`, or − `wake_here` if that is unknown.
    pub ipi_send_ns: f64,
    /// A context switch.
    pub context_switch_ns: f64,
    /// Setting and cancelling the timer of a wait.
    #[serde(default)]
    pub timer_ns: f64,
    /// Leaving the idle state after a brief idle time, including the interrupt: `woken_after_brief_rest` − `wake_there`
    /// − the context switch; the value of a short idle time if unknown.
    #[serde(default)]
    pub brief_idle_exit_ns: f64,
    /// The same after a short idle time; not less.
    pub idle_exit_ns: f64,
    /// The same after a long idle time; not less.
    pub deep_idle_exit_ns: f64,
    /// Starting a thread, without the system call and the wake-up.
    pub thread_create_ns: f64,
}

impl Calibration {
    /// A brief idle time, in nanoseconds.
    pub const BRIEF_REST_NS: u64 = 20_000;
    /// A short idle time, in nanoseconds.
    pub const SHORT_REST_NS: u64 = 200_000;

    /// Returns the idle time until which a CPU wakes as fast as after a brief one, in nanoseconds: between the last
    /// such time and the first that is closer to a short one. Returns `None` if no brief idle time was measured.
    #[must_use]
    pub fn brief_rest_ends_ns(&self) -> Option<f64> {
        let (brief, short) = (self.woken_after_brief_rest?, self.woken_after_short_rest?);
        let halfway_ns = (brief.median_ns * short.median_ns).sqrt();
        let is_brief = |(_, woken): &&(f64, Figure)| woken.median_ns < halfway_ns;
        let brief_ones = self.woken_after_rests_between.iter().take_while(is_brief);
        let last_ns =
            brief_ones.clone().last().map_or(Self::BRIEF_REST_NS as f64, |(rest_ns, _)| *rest_ns);
        let next = self.woken_after_rests_between.get(brief_ones.count());
        let next_ns = next.map_or(Self::SHORT_REST_NS as f64, |(rest_ns, _)| *rest_ns);
        Some((last_ns * next_ns).sqrt())
    }

    /// Computes the costs. Values that noise made negative are 0.
    #[must_use]
    pub fn costs(&self) -> Costs {
        let less = |from: f64, parts: f64| (from - parts).max(0.0);
        let wake_there = self.wake_there.unwrap_or(self.wake_here).median_ns;
        let (here, refused) = (self.wake_here.median_ns, self.wait_refused.median_ns);
        let wake_busy =
            self.wake_busy.map_or(here, |woken| woken.median_ns.clamp(here, wake_there.max(here)));
        let context_switch_ns = self.context_switch.median_ns;
        let exit = |woken: Option<Figure>| {
            woken.map_or(0.0, |woken| less(woken.median_ns, wake_there + context_switch_ns))
        };
        let brief = self.woken_after_brief_rest.or(self.woken_after_short_rest);
        let brief_idle_exit_ns = exit(brief);
        let idle_exit_ns = exit(self.woken_after_short_rest).max(brief_idle_exit_ns);
        Costs {
            syscall_ns: self.wake_nobody.median_ns,
            futex_ns: less(refused, self.wake_nobody.median_ns),
            wake_ns: less(here, refused),
            wake_remote_ns: less(wake_busy, here),
            ipi_send_ns: less(wake_there, wake_busy),
            context_switch_ns,
            timer_ns: self.timer.map_or(0.0, |timer| timer.median_ns.max(0.0)),
            brief_idle_exit_ns,
            idle_exit_ns,
            deep_idle_exit_ns: exit(self.woken_after_long_rest).max(idle_exit_ns),
            thread_create_ns: less(self.spawn.median_ns, here),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(median_ns: f64) -> Figure {
        Figure { median_ns, min_ns: median_ns, max_ns: median_ns, samples: 1 }
    }

    #[test]
    fn a_brief_rest_ends_between_the_last_of_its_kind_and_the_next() {
        let none = Calibration::default();
        assert_eq!(none.brief_rest_ends_ns(), None);
        let ends = |between: [f64; 3]| {
            let rests = [40e3, 80e3, 160e3].into_iter().zip(between.map(figure));
            let measured = Calibration {
                woken_after_brief_rest: Some(figure(5_000.0)),
                woken_after_short_rest: Some(figure(11_000.0)),
                woken_after_rests_between: rests.collect(),
                ..none.clone()
            };
            measured.brief_rest_ends_ns().unwrap().round()
        };
        assert_eq!(ends([5_000.0, 5_100.0, 5_500.0]), 178_885.0);
        assert_eq!(ends([5_000.0, 9_000.0, 11_000.0]), 56_569.0);
        assert_eq!(ends([9_000.0, 5_000.0, 5_000.0]), 28_284.0);
    }
}

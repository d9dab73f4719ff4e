//! What `calibrate` measured.

use serde::{Deserialize, Serialize};

/// A figure that was measured several times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The median.
    pub median_ns: f64,
    /// The smallest.
    pub min_ns: f64,
    /// The largest.
    pub max_ns: f64,
    /// How often it was measured.
    pub samples: usize,
}

/// CPUs on one word.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contended {
    /// Threads, each on a CPU of its own.
    pub threads: usize,
    /// A fetch-and-add, per operation and thread.
    pub add: Figure,
    /// An increment by a compare-exchange loop, per operation and thread.
    pub compare_exchange: Figure,
    /// A ticket lock, and a count under it, per operation and thread.
    #[serde(default)]
    pub ticket_lock: Figure,
    /// The platform's lock, and a count under it, per operation and thread.
    #[serde(default)]
    pub mutex: Figure,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The numbers of the CPUs, in the order of `latency`.
    pub cpus: Vec<u32>,
    /// By CPU and CPU: half a round trip of a compare-exchange ping-pong; `None` for one CPU.
    pub latency: Vec<Vec<Option<Figure>>>,
    /// A load that depends on the load before it, and hits the first cache.
    pub load: Figure,
    /// A fetch-and-add on a line that the CPU owns.
    pub atomic: Figure,
    /// A turn of spinning, its look at the word aside.
    pub spin_hint: Figure,
    /// Reading the clock.
    pub clock_read: Figure,
    /// A load of a line that is in no cache.
    pub memory: Figure,
    /// CPUs on one word, from one to 64 as far as there are.
    pub contended: Vec<Contended>,
    /// A wake-up call where nobody sleeps: about the cheapest system call there is.
    pub wake_nobody: Figure,
    /// A wait that returns at once, since the word has changed.
    pub wait_refused: Figure,
    /// A wake-up call for a thread of the caller's own CPU.
    pub wake_here: Figure,
    /// A wake-up call for a thread of another CPU, which is busy with what may wait; `None` where there is one CPU.
    #[serde(default)]
    pub wake_busy: Option<Figure>,
    /// A wake-up call for a thread on a CPU that rests; `None` where there is one CPU.
    pub wake_there: Option<Figure>,
    /// From such a call until the thread runs, on a CPU that has rested for 20 microseconds.
    #[serde(default)]
    pub woken_after_brief_rest: Option<Figure>,
    /// The same after rests in between, each with its length in nanoseconds, the shorter ones first.
    #[serde(default)]
    pub woken_after_rests_between: Vec<(f64, Figure)>,
    /// The same after a fifth of a millisecond.
    pub woken_after_short_rest: Option<Figure>,
    /// The same after five milliseconds.
    pub woken_after_long_rest: Option<Figure>,
    /// From thread to thread on one CPU: what two take that yield to each other, for each yield, without the system call.
    pub context_switch: Figure,
    /// What a wait with a timeout takes longer than one without.
    #[serde(default)]
    pub timer: Option<Figure>,
    /// Starting a thread: until the call returns.
    pub spawn: Figure,
    /// How long a thread runs while another waits for its CPU; `None` where none was seen to wait.
    #[serde(default)]
    pub slice: Option<Figure>,
    /// Lines that another CPU has written and nobody waits for; `None` where there is one CPU.
    #[serde(default)]
    pub fetched: Option<Fetched>,
    /// By how much the same takes more at one time than at another.
    #[serde(default)]
    pub variation: Option<Variation>,
}

/// Lines that the first CPU had written, fetched by the second, one after the other: for each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetched {
    /// A load.
    pub load: Figure,
    /// A load of the other one of two lines side by side, when all first ones had come.
    pub load_of_pair: Figure,
    /// A fetch-and-add.
    pub add: Figure,
    /// A load, and a fetch-and-add of the same word that waits for it.
    pub load_and_add: Figure,
    /// A store; all of them on their way at once, as far as the CPU can.
    pub store: Figure,
}

impl Fetched {
    /// Whether a load of a written line takes it, so that an add that follows finds it: less than half of an add that fetches
    /// its line is left of it then.
    #[must_use]
    pub fn loads_take_dirty_lines(&self) -> bool {
        self.load_and_add.median_ns - self.load.median_ns < self.add.median_ns / 2.0
    }

    /// Whether a line brings the other one of its pair along: a third is saved there.
    #[must_use]
    pub fn pairs_come_together(&self) -> bool {
        self.load_of_pair.median_ns < self.load.median_ns / 1.5
    }

    /// Lines of stores on their way at once, from 1 to 64.
    #[must_use]
    pub fn stores_at_once(&self) -> u32 {
        (self.add.median_ns / self.store.median_ns.max(0.1)).round().clamp(1.0, 64.0) as u32
    }
}

/// By how much the same takes more at one time than at another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// Calls that were compared.
    pub samples: usize,
    /// What a call that wakes a thread takes, over the median, at each of [`AT_PERCENT`](Self::AT_PERCENT) of all.
    pub calls: [f64; 6],
    /// What passes until a thread runs that was woken on a CPU at rest, likewise.
    pub exits: [f64; 6],
    /// How often a thread that watched the clock was interrupted.
    pub interruptions: u64,
    /// Time between two of that, in nanoseconds; 0 where there was none.
    pub interrupted_every_ns: f64,
    /// What one takes, in nanoseconds.
    pub interrupted_for_ns: f64,
}

impl Variation {
    /// Shares of all, in percent.
    pub const AT_PERCENT: [usize; 6] = [5, 25, 50, 75, 95, 99];
}

/// What the parts cost that a simulation is made of, in nanoseconds; told from a [`Calibration`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// A system call: `wake_nobody`.
    pub syscall_ns: f64,
    /// Finding a word's sleepers: `wait_refused` − `wake_nobody`.
    pub futex_ns: f64,
    /// Making a thread runnable: `wake_here` − `wait_refused`.
    pub wake_ns: f64,
    /// What is added where the thread's CPU is another one: `wake_busy` − `wake_here`.
    #[serde(default)]
    pub wake_remote_ns: f64,
    /// Sending an interrupt to a CPU that rests: `wake_there` − `wake_busy`, or − `wake_here` where that is not known.
    pub ipi_send_ns: f64,
    /// From thread to thread.
    pub context_switch_ns: f64,
    /// A wait's timer, set and taken back.
    #[serde(default)]
    pub timer_ns: f64,
    /// Leaving the idle state of a brief rest, the interrupt's way included:
    /// `woken_after_brief_rest` − `wake_there` − the context switch; that of a short rest where it is not known.
    #[serde(default)]
    pub brief_idle_exit_ns: f64,
    /// The same of a short rest; not less.
    pub idle_exit_ns: f64,
    /// The same of a long rest; not less.
    pub deep_idle_exit_ns: f64,
    /// Starting a thread, the system call and the wake-up taken out.
    pub thread_create_ns: f64,
}

impl Calibration {
    /// A brief rest, in nanoseconds.
    pub const BRIEF_REST_NS: u64 = 20_000;
    /// A short one.
    pub const SHORT_REST_NS: u64 = 200_000;

    /// How long a CPU at rest is back as soon as after a brief rest, in nanoseconds: between the last rest of which that is so,
    /// and the first that is more like a short one. `None` where no brief rest was measured.
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

    /// The parts. What noise has made negative is 0.
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

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The numbers of the CPUs, in the order of `latency`.
    pub cpus: Vec<u32>,
    /// By CPU and CPU: half a round trip of a compare-exchange ping-pong; `None` for one CPU.
    pub latency: Vec<Vec<Option<Figure>>>,
    /// A load that depends on the load before it, and hits the first cache.
    pub load: Figure,
    /// A fetch-and-add on a line that the CPU owns.
    pub atomic: Figure,
    /// A spin hint.
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
    /// A wake-up call for a thread on a CPU that rests; `None` where there is one CPU.
    pub wake_there: Option<Figure>,
    /// From such a call until the thread runs, on a CPU that has rested for 20 microseconds.
    #[serde(default)]
    pub woken_after_brief_rest: Option<Figure>,
    /// The same after a fifth of a millisecond.
    pub woken_after_short_rest: Option<Figure>,
    /// The same after five milliseconds.
    pub woken_after_long_rest: Option<Figure>,
    /// From thread to thread on one CPU: half a round trip of two that wake each other, without the
    /// wake-ups and the waits, which are counted.
    pub context_switch: Figure,
    /// Starting a thread: until the call returns.
    pub spawn: Figure,
    /// How long a thread runs while another waits for its CPU; `None` where none was seen to wait.
    #[serde(default)]
    pub slice: Option<Figure>,
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
    /// Sending an interrupt: `wake_there` − `wake_here`.
    pub ipi_send_ns: f64,
    /// From thread to thread.
    pub context_switch_ns: f64,
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
    /// The parts. What noise has made negative is 0.
    #[must_use]
    pub fn costs(&self) -> Costs {
        let less = |from: f64, parts: f64| (from - parts).max(0.0);
        let wake_there = self.wake_there.unwrap_or(self.wake_here).median_ns;
        let (here, refused) = (self.wake_here.median_ns, self.wait_refused.median_ns);
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
            ipi_send_ns: less(wake_there, here),
            context_switch_ns,
            brief_idle_exit_ns,
            idle_exit_ns,
            deep_idle_exit_ns: exit(self.woken_after_long_rest).max(idle_exit_ns),
            thread_create_ns: less(self.spawn.median_ns, here),
        }
    }
}

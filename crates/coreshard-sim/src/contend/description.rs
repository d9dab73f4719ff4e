//! What threads share, and what each of them does with it.

use crate::caches::Placement;
use crate::machine::Machine;

/// The most words on one line: words have 8 bytes, and the shortest lines 64.
pub const WORDS_OF_LINE: usize = 8;

/// A program's contention: the objects that its threads share, and the steps that each thread repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Contention {
    /// A title for reports; empty if the file has none.
    pub title: String,
    /// The objects, in the order of their first words.
    pub objects: Vec<Object>,
    /// A thread does these steps, one after the other, then computes outside, and repeats both.
    pub steps: Vec<Step>,
    /// The computation between two rounds of steps.
    pub outside: Outside,
    /// The numbers of threads to try; `None`: chosen by the machine.
    pub threads: Option<Vec<usize>>,
    /// Which CPUs the threads use.
    pub pinning: Pinning,
}

/// Words that lie side by side in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The names of its words.
    pub words: Vec<String>,
    /// How many copies there are.
    pub copies: Copies,
    /// Whether each copy begins on its own line.
    pub is_padded: bool,
}

/// The copies of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One for all threads.
    One,
    /// One for each group of this many neighbouring CPUs.
    PerShard(usize),
    /// One for each thread.
    PerThread,
}

/// A step of each thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The operation.
    pub operation: Operation,
    /// The object and the position of the word in it.
    pub word: (usize, usize),
    /// How a failed attempt is repeated.
    pub retry: Retry,
    /// Words that the holder of a lock reads.
    pub reads: Vec<(usize, usize)>,
    /// Words that the holder of a lock reads and writes.
    pub writes: Vec<(usize, usize)>,
    /// How long the holder of a lock computes, in nanoseconds.
    pub inside_ns: f64,
    /// The step is done in one of this many rounds.
    pub every: u32,
}

macro_rules! operations {
    ($($operation:ident = $name:literal: $doc:literal),+ $(,)?) => {
        /// An operation on a word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $(#[doc = $doc] $operation,)+
        }

        impl Operation {
            /// All operations.
            pub const ALL: &[Self] = &[$(Self::$operation),+];

            /// Returns the operation's name in a file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $name,)+
                }
            }
        }
    };
}

operations! {
    Load = "load": "Reads the word.",
    Store = "store": "Writes the word.",
    Add = "add": "Adds to the word with one instruction.",
    Cas = "cas": "Loads the word and compare-exchanges it, until that succeeds.",
    SpinLock = "spin-lock": "A lock that waiters read until it is free, and then exchange.",
    TicketLock = "ticket-lock": "A lock whose waiters draw numbers, and read which one is served.",
    QueueLock = "queue-lock": "A lock whose waiters queue, each spinning on its own line (MCS).",
    Mutex = "mutex": "A lock whose waiters sleep.",
    ReadLock = "read-lock": "The shared side of a readers-writer spin lock.",
    WriteLock = "write-lock": "The exclusive side of a readers-writer spin lock.",
    Combine = "combine": "A lock whose holder does the waiters' work for them (CC-Synch).",
}

impl Operation {
    /// Returns whether the operation has a holder, who may read, write and compute.
    #[must_use]
    pub const fn is_lock(self) -> bool {
        !matches!(self, Self::Load | Self::Store | Self::Add | Self::Cas)
    }

    /// Returns whether a failed attempt is repeated in a way that the description chooses.
    #[must_use]
    pub const fn retries(self) -> bool {
        matches!(self, Self::Cas | Self::SpinLock)
    }
}

/// How a thread repeats a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Without a pause.
    AtOnce,
    /// After the CPU's spin hint.
    Pause,
    /// After a random number of spin hints, whose range doubles each time.
    BackOff,
}

/// How long a thread computes between two rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outside {
    /// Nanoseconds, on average.
    Ns(f64),
    /// The share of a lone thread's time: at least, and at most.
    Share(f64, f64),
}

/// Which CPUs the threads use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// The scheduler chooses.
    Unpinned,
    /// Each thread has its own CPU.
    Pinned(Placement),
}

impl Contention {
    /// Returns the range of the time outside in nanoseconds, given the time of a lone thread's steps.
    #[must_use]
    pub fn outside_ns(&self, steps_ns: f64) -> (f64, f64) {
        let of_share = |share: f64| steps_ns * share / (1.0 - share);
        match self.outside {
            Outside::Ns(ns) => (ns, ns),
            Outside::Share(least, most) => (of_share(least), of_share(most)),
        }
    }

    /// Returns the CPUs of one thread after the other, as positions in the machine's list, for as many threads as
    /// can have one each.
    #[must_use]
    pub fn cpus(&self, machine: &Machine) -> Vec<usize> {
        match &self.pinning {
            // The simulated scheduler wakes threads on idle CPUs of the waker's cache, as long as there are some.
            Pinning::Unpinned => Placement::Compact.order(machine),
            Pinning::Pinned(placement) => placement.order(machine),
        }
    }

    /// Returns the words that no step uses: they only take room on a line, or are misspelt.
    #[must_use]
    pub fn unused(&self) -> Vec<&str> {
        let is_used = |place: (usize, usize)| {
            let uses = |step: &Step| {
                step.word == place || step.reads.contains(&place) || step.writes.contains(&place)
            };
            self.steps.iter().any(uses)
        };
        let words = self.objects.iter().enumerate().flat_map(|(number, object)| {
            object.words.iter().enumerate().map(move |(at, word)| ((number, at), word))
        });
        words.filter(|(place, _)| !is_used(*place)).map(|(_, word)| word.as_str()).collect()
    }

    /// Returns whether any step writes a word of an object.
    #[must_use]
    pub fn writes_to(&self, object: usize) -> bool {
        self.steps.iter().any(|step| step.writes_to(object))
    }
}

impl Step {
    /// Returns whether the step writes a word of an object.
    #[must_use]
    pub fn writes_to(&self, object: usize) -> bool {
        self.operation != Operation::Load && self.word.0 == object
            || self.writes.iter().any(|word| word.0 == object)
    }
}

impl Object {
    /// Returns the object's name: its words.
    #[must_use]
    pub fn name(&self) -> String {
        let words = self.words.join(" + ");
        match self.copies {
            Copies::One => words,
            Copies::PerShard(_) => format!("{words} (per shard)"),
            Copies::PerThread => format!("{words} (per thread)"),
        }
    }

    /// Returns the distance of two copies, in words.
    #[must_use]
    pub const fn stride(&self) -> usize {
        if self.is_padded { 2 * WORDS_OF_LINE } else { self.words.len() }
    }
}

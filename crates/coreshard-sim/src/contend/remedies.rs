//! The standard remedies, as changes to a contention.

use super::description::{Contention, Copies, Object, Operation, Retry};

/// How many CPUs share a copy if a word is split per shard.
pub const CPUS_OF_SHARD: usize = 8;
/// How many rounds share a step if steps are batched.
const BATCH: u32 = 8;
/// Steps that are rarer than one in this many rounds are not batched.
const RARE: u32 = 100;

/// A standard remedy against contention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Each word on a line of its own.
    Pad,
    /// A copy of each written word for eight neighbouring CPUs.
    PerShard,
    /// A copy of each written word for each thread.
    PerCpu,
    /// Each step for eight rounds at once.
    Batch,
    /// Random pauses, whose range doubles, after a failed attempt.
    BackOff,
    /// Locks whose waiters queue, each on its own line.
    QueueLock,
    /// Locks whose holder does the waiters' work.
    Combine,
}

impl Remedy {
    /// All remedies.
    pub const ALL: [Self; 7] = [
        Self::Pad,
        Self::PerShard,
        Self::PerCpu,
        Self::Batch,
        Self::BackOff,
        Self::QueueLock,
        Self::Combine,
    ];

    /// Returns the name of the remedy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pad => "pad",
            Self::PerShard => "per 8 CPUs",
            Self::PerCpu => "per CPU",
            Self::Batch => "batch",
            Self::BackOff => "back off",
            Self::QueueLock => "queue lock",
            Self::Combine => "combine",
        }
    }

    /// Describes the change in a few words.
    #[must_use]
    pub const fn change(self) -> &'static str {
        match self {
            Self::Pad => "each word on its own line",
            Self::PerShard => "a copy for 8 CPUs each",
            Self::PerCpu => "a copy for each CPU",
            Self::Batch => "8 rounds at once",
            Self::BackOff => "pauses after failures",
            Self::QueueLock => "waiters spin on own lines",
            Self::Combine => "the holder serves waiters",
        }
    }

    /// Returns the contention with the remedy applied; `None` if the remedy does not change it.
    ///
    /// Whether the program still computes the same is the caller's question: a counter may be split, and a queue's
    /// head may not.
    ///
    /// ```
    /// use coreshard_sim::contend::{Contention, Remedy};
    ///
    /// let text = "lines = [[\"a\", \"b\"]]\noutside_ns = 9\nsteps = [{ add = \"a\" }, { load = \"b\" }]";
    /// let shared = Contention::from_toml("it", text)?;
    /// assert_eq!(shared.objects.len(), 1);
    /// assert_eq!(Remedy::Pad.apply(&shared).unwrap().objects.len(), 2);
    /// assert_eq!(Remedy::QueueLock.apply(&shared), None);
    /// # Ok::<(), coreshard_sim::contend::ContentionError>(())
    /// ```
    #[must_use]
    pub fn apply(self, contention: &Contention) -> Option<Contention> {
        let changed = match self {
            Self::Pad => pad(contention),
            Self::PerShard => split(contention, Copies::PerShard(CPUS_OF_SHARD)),
            Self::PerCpu => split(contention, Copies::PerThread),
            Self::Batch => batch(contention),
            Self::BackOff => back_off(contention),
            Self::QueueLock => relock(contention, Operation::QueueLock),
            Self::Combine => relock(contention, Operation::Combine),
        };
        (changed != *contention).then_some(changed)
    }
}

fn pad(contention: &Contention) -> Contention {
    let mut changed = contention.clone();
    changed.objects.clear();
    // The first word of each object in the new list.
    let mut firsts = Vec::new();
    for (number, object) in contention.objects.iter().enumerate() {
        firsts.push(changed.objects.len());
        // A line that is only read may stay as it is.
        let is_alone = object.words.len() == 1 && object.copies == Copies::One;
        if is_alone || !contention.writes_to(number) {
            changed.objects.push(object.clone());
            continue;
        }
        for word in &object.words {
            let words = vec![word.clone()];
            changed.objects.push(Object { words, is_padded: true, ..object.clone() });
        }
    }
    let place = |word: &mut (usize, usize)| {
        let is_split =
            contention.objects[word.0].words.len() > changed.objects[firsts[word.0]].words.len();
        *word = if is_split { (firsts[word.0] + word.1, 0) } else { (firsts[word.0], word.1) };
    };
    for step in &mut changed.steps {
        place(&mut step.word);
        step.reads.iter_mut().chain(&mut step.writes).for_each(place);
    }
    changed
}

fn split(contention: &Contention, copies: Copies) -> Contention {
    let mut changed = contention.clone();
    for (number, object) in changed.objects.iter_mut().enumerate() {
        if object.copies == Copies::One && contention.writes_to(number) {
            object.copies = copies;
            object.is_padded = true;
        }
    }
    changed
}

fn batch(contention: &Contention) -> Contention {
    let mut changed = contention.clone();
    for step in changed.steps.iter_mut().filter(|step| step.every <= RARE) {
        step.every *= BATCH;
        // The work inside is that of all rounds; a counter is added to once.
        step.inside_ns *= f64::from(BATCH);
    }
    changed
}

fn back_off(contention: &Contention) -> Contention {
    let mut changed = contention.clone();
    for step in changed.steps.iter_mut().filter(|step| step.operation.retries()) {
        step.retry = Retry::BackOff;
    }
    changed
}

/// Locks with a holder at a time; the sides of a readers-writer lock are not.
fn relock(contention: &Contention, lock: Operation) -> Contention {
    const LOCKS: [Operation; 3] = [Operation::SpinLock, Operation::TicketLock, Operation::Mutex];
    let mut changed = contention.clone();
    for step in &mut changed.steps {
        let is_queued = step.operation == Operation::QueueLock && lock == Operation::Combine;
        if LOCKS.contains(&step.operation) || is_queued {
            step.operation = lock;
            step.retry = Retry::Pause;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Contention {
        Contention::from_toml("it", text).unwrap()
    }

    fn applied(text: &str) -> Vec<&'static str> {
        let contention = read(text);
        let applies = |remedy: &&Remedy| remedy.apply(&contention).is_some();
        Remedy::ALL.iter().filter(applies).map(|remedy| remedy.name()).collect()
    }

    #[test]
    fn only_remedies_that_change_something_apply() {
        let counter = "outside_ns = 1\nsteps = [{ add = \"it\" }]";
        assert_eq!(applied(counter), ["per 8 CPUs", "per CPU", "batch"]);
        let own = format!("per_thread = [\"it\"]\n{counter}");
        assert_eq!(applied(&own), ["pad", "batch"]);
        let lock = "outside_ns = 1\nsteps = [{ spin-lock = \"it\" }]";
        assert_eq!(
            applied(lock),
            ["per 8 CPUs", "per CPU", "batch", "back off", "queue lock", "combine"]
        );
        let queued = "outside_ns = 1\nsteps = [{ queue-lock = \"it\" }]";
        assert_eq!(applied(queued), ["per 8 CPUs", "per CPU", "batch", "combine"]);
    }

    #[test]
    fn padding_gives_each_word_a_line_and_moves_the_steps() {
        let text = r#"
lines = [["lock", "head"], ["max", "min"]]
outside_ns = 1
steps = [{ spin-lock = "lock", writes = ["head"], reads = ["min"] }]
"#;
        let padded = Remedy::Pad.apply(&read(text)).unwrap();
        let names: Vec<_> = padded.objects.iter().map(Object::name).collect();
        assert_eq!(names, ["lock", "head", "max + min"]);
        let step = &padded.steps[0];
        assert_eq!((step.word, &step.writes, &step.reads), ((0, 0), &vec![(1, 0)], &vec![(2, 1)]));
        assert!(padded.objects[0].is_padded && padded.objects[0].stride() == 16);
    }

    #[test]
    fn a_batch_holds_the_lock_for_all_its_rounds() {
        let text = "outside_ns = 1\nsteps = [{ mutex = \"it\", inside_ns = 5 }]";
        let batched = Remedy::Batch.apply(&read(text)).unwrap();
        assert_eq!((batched.steps[0].every, batched.steps[0].inside_ns), (8, 40.0));
    }
}

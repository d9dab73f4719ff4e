//! Classifies the sharing of a line by its accesses, and recommends a remedy.

use std::collections::BTreeMap;

use serde::Serialize;

use super::conflicts::{Conflicts, Count, Lives, conflicts};

/// A thread follows a word if it reads the word at least once per this many writes by another thread.
const FOLLOWED: u64 = 8;
/// The least share of a line's conflicts that must be between elements to separate them although a lock lies there.
const LEAST_BETWEEN: f64 = 0.3;

/// Whether threads access the same bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Different bytes. Only the line is shared, not the data on it.
    False,
    /// The same bytes.
    True,
    /// Both, each for at least a fifth of the time.
    Both,
}

impl Sharing {
    /// Compares the time that each kind cost.
    pub(super) const fn of(true_ps: u64, false_ps: u64) -> Self {
        let all = true_ps + false_ps;
        match (true_ps * 5 >= all && all > 0, false_ps * 5 >= all) {
            (true, true) => Self::Both,
            (false, _) => Self::False,
            (true, false) => Self::True,
        }
    }
}

/// A remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Put data that different threads write on separate lines.
    Separate,
    /// Each element of an array belongs to a thread. Let each element begin a line.
    PadElements,
    /// All threads modify one word. Give each thread or CPU its own word, and compute the sum on reading.
    Split,
    /// A lock and the data that it guards, which belong on one line. Hold the lock for a shorter time, or use several
    /// locks.
    LockAndData,
    /// A lock beside data that other threads use without it.
    LockApart,
    /// Two threads each write a word that the other reads, as in a ring of one producer and one consumer. Put each word
    /// on a separate line, and let each thread keep a copy of the other's word.
    OwnWords,
    /// Many threads read data that few threads write. Move the written data away from the read data, or write it less
    /// often.
    ReadMostly,
    /// The data itself passes from thread to thread, once. No layout helps.
    HandOver,
}

impl Advice {
    /// Whether the remedy is a different layout.
    #[must_use]
    pub const fn is_of_layout(self) -> bool {
        matches!(self, Self::Separate | Self::PadElements | Self::LockApart | Self::OwnWords)
    }

    /// Returns cause and remedy in at most 56 characters, for a list.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Separate => "false sharing: give each thread's data separate lines",
            Self::PadElements => "false sharing of elements: let each begin a line",
            Self::Split => "one word that many write: give each thread its own",
            Self::LockAndData => "a lock and its data: hold it shorter, or have several",
            Self::LockApart => "a lock beside other data: put it on a separate line",
            Self::OwnWords => "each writes what the other reads: a line for each word",
            Self::ReadMostly => "many readers, few writers: write it less often",
            Self::HandOver => "data passes from thread to thread: no layout helps",
        }
    }

    /// Returns cause and remedy as a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Separate => {
                "false sharing: put data that different threads write on separate lines"
            }
            Self::PadElements => "false sharing between elements: let each element begin a line",
            Self::Split => {
                "true sharing of one word, which padding does not help: give each thread or CPU its own, and add them up \
                 when the sum is read"
            }
            Self::LockAndData => {
                "a lock and the data that it guards, which belong on one line: padding does not help; hold it shorter, or have several"
            }
            Self::LockApart => {
                "a lock beside data that others use without it: put the lock on a separate line"
            }
            Self::OwnWords => {
                "two threads that each write a word that the other reads: put each word on a separate line, and let each thread \
                 keep a copy of the other's word"
            }
            Self::ReadMostly => {
                "true sharing of data with many readers and few writers: padding does not help; write it less often, or let each \
                 reader have a copy"
            }
            Self::HandOver => "data that passes from one thread to the next: no layout helps",
        }
    }
}

/// The accesses of one word of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    /// The accesses by each thread, sorted by thread, without the few writes of an initialization.
    pub(super) counts: Vec<Count>,
    pub(super) is_lock: bool,
    /// Accesses by a thread that held a lock on this line.
    pub(super) locked: u64,
    /// The object that contains it, identified by its first byte, and the element of that object or of an array in it.
    pub(super) element: (u64, String),
    /// Index of its object among the names on this line; 0 for the costliest.
    pub(super) name: usize,
}

impl Use {
    /// Adds accesses by a thread.
    pub(super) fn add(&mut self, count: Count) {
        match self.counts.binary_search_by_key(&count.thread, |its| its.thread) {
            Ok(at) => {
                self.counts[at].reads += count.reads;
                self.counts[at].writes += count.writes;
            }
            Err(at) => self.counts.insert(at, count),
        }
    }

    fn reads(&self) -> u64 {
        self.counts.iter().map(|its| its.reads).sum()
    }

    fn writes(&self) -> u64 {
        self.counts.iter().map(|its| its.writes).sum()
    }

    fn readers(&self) -> usize {
        self.counts.iter().filter(|its| its.reads > 0).count()
    }

    fn writers(&self) -> usize {
        self.counts.iter().filter(|its| its.writes > 0).count()
    }

    /// Returns the only thread that writes it, with that thread's accesses.
    fn only_writer(&self) -> Option<Count> {
        let mut writers = self.counts.iter().filter(|its| its.writes > 0);
        writers.next().filter(|_| writers.next().is_none()).copied()
    }

    /// Returns whether a thread reads it often enough to follow another thread's writes.
    fn is_followed_by(&self, reader: u32, writes: u64) -> bool {
        let its = self.counts.iter().find(|its| its.thread == reader);
        its.is_some_and(|its| its.reads.saturating_mul(FOLLOWED) >= writes)
    }

    /// Returns whether it lies in another element or in another object of the same name.
    fn is_other_element(&self, other: &Self) -> bool {
        let is_indexed = !self.element.1.is_empty() && !other.element.1.is_empty();
        let is_other = self.element.0 != other.element.0;
        self.name == other.name && (is_other || (is_indexed && self.element.1 != other.element.1))
    }
}

/// The remedy for a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judgement {
    pub(super) advice: Advice,
    /// The expected conflicts of its accesses, which weight the line in its object's advice.
    pub(super) weight: f64,
}

/// The words of a line and the expected conflicts of each.
struct Judged<'words> {
    words: &'words [Use],
    conflicts: Vec<Conflicts>,
    sum: Conflicts,
}

/// Selects the remedy for a line by its words. Times and misses of a replay are ignored because they depend on the schedule.
pub(super) fn judge(words: &[Use], lives: &Lives) -> Judgement {
    let mut elements: Vec<_> = words.iter().map(|word| &word.element).collect();
    elements.sort_unstable();
    elements.dedup();
    let place = |word: &Use| elements.binary_search(&&word.element).unwrap_or_default();
    let all: Vec<_> = words.iter().map(|word| (&word.counts[..], place(word))).collect();
    let conflicts = conflicts(&all, lives);
    let sum = Conflicts::sum(&conflicts);
    let judged = Judged { words, conflicts, sum };
    let advice = if words.iter().any(|word| word.is_lock) {
        judged.judge_lock()
    } else if judged.has_mutual_words() {
        Advice::OwnWords
    } else if sum.line - sum.word > sum.word {
        judged.judge_false()
    } else {
        judged.judge_true()
    };
    Judgement { advice, weight: sum.line }
}

impl Judged<'_> {
    /// A lock's words and the data that it guards are used together, even if the accesses are to different bytes.
    fn judge_lock(&self) -> Advice {
        if self.between_elements() >= LEAST_BETWEEN * self.sum.line
            && let Some(advice) = self.apart(self.contended())
        {
            return advice;
        }
        let data = self.words.iter().filter(|word| !word.is_lock);
        let (uses, locked) = data.fold((0, 0), |(uses, locked), word| {
            (uses + word.reads() + word.writes(), locked + word.locked)
        });
        let is_beside = (self.sum.line - self.sum.word) * 5.0 >= self.sum.line;
        if is_beside && locked * 2 < uses { Advice::LockApart } else { Advice::LockAndData }
    }

    fn judge_false(&self) -> Advice {
        let written = self.contended().filter(|word| word.writers() > 0);
        let own = written.clone().filter(|word| word.writers() == 1).count();
        if own * 2 < written.clone().count()
            || self.between_elements() * 2.0 < self.sum.line - self.sum.word
        {
            return Advice::Separate;
        }
        self.apart(written).unwrap_or(Advice::Separate)
    }

    fn judge_true(&self) -> Advice {
        let is_both = (self.sum.line - self.sum.word) * 5.0 >= self.sum.line && self.sum.line > 0.0;
        if is_both && differ(self.words.iter().filter_map(|word| Some(word.only_writer()?.thread)))
        {
            return Advice::Separate;
        }
        let (reads, writes) = self
            .words
            .iter()
            .fold((0, 0), |(reads, writes), word| (reads + word.reads(), writes + word.writes()));
        let written = self.words.iter().zip(&self.conflicts).filter(|(word, _)| word.writes() > 0);
        let hottest = written.max_by(|(_, one), (_, other)| one.line.total_cmp(&other.line));
        match hottest {
            Some((word, _)) if word.writers() > 1 && word.writes() > 8 * word.writers() as u64 => {
                Advice::Split
            }
            Some((word, _)) if word.readers() > 1 && reads > 8 * writes => Advice::ReadMostly,
            _ => Advice::HandOver,
        }
    }

    /// Returns whether two threads each write a word that the other reads. Elements of an array are padded instead.
    fn has_mutual_words(&self) -> bool {
        let sole = |word| Use::only_writer(word).map(|writer| (word, writer));
        let sole: Vec<_> = self.words.iter().filter_map(sole).collect();
        sole.iter().enumerate().any(|(at, (one, writer))| {
            sole[..at].iter().any(|(other, its)| {
                its.thread != writer.thread
                    && one.is_followed_by(its.thread, writer.writes)
                    && other.is_followed_by(writer.thread, its.writes)
                    && !one.is_other_element(other)
            })
        })
    }

    /// Returns the conflicts between different elements.
    fn between_elements(&self) -> f64 {
        self.sum.line - self.sum.element
    }

    /// Returns the contended words: words with at least a twentieth of the most contended word's conflicts.
    fn contended(&self) -> impl Iterator<Item = &Use> + Clone {
        let most = self.conflicts.iter().map(|its| its.line).fold(0.0, f64::max);
        let all = self.words.iter().zip(&self.conflicts);
        all.filter(move |(_, its)| its.line * 20.0 >= most).map(|(word, _)| word)
    }

    /// Returns the remedy for false sharing between elements or between objects, or none if the words are in one element.
    fn apart<'words>(&self, words: impl Iterator<Item = &'words Use>) -> Option<Advice> {
        let mut places: Vec<_> = words.map(|word| (word.name, &word.element)).collect();
        places.sort_unstable();
        places.dedup();
        let is_one_name = places.first()?.0 == places.last()?.0;
        (places.len() > 1).then_some(if is_one_name {
            Advice::PadElements
        } else {
            Advice::Separate
        })
    }
}

/// Whether there are at least two different threads.
fn differ(mut threads: impl Iterator<Item = u32>) -> bool {
    threads.next().is_some_and(|first| threads.any(|other| other != first))
}

/// Returns the advice for an object from the advice for its lines, each with the lines' weight and the time lost on them.
///
/// [`Advice::HandOver`] must lead in both. Otherwise the lines of a queue's items could outweigh the lines of its indices when the
/// threads hardly overlap.
pub(super) fn of_lines(lines: &BTreeMap<Advice, (f64, u64)>) -> Advice {
    let by_time = lines.iter().max_by_key(|(_, (_, lost_ps))| *lost_ps);
    let is_handed_over = by_time.is_some_and(|(advice, _)| *advice == Advice::HandOver);
    let heaviest = |is_asked: &dyn Fn(Advice) -> bool| {
        let asked = lines.iter().filter(|(advice, _)| is_asked(**advice));
        asked.max_by(|(_, one), (_, other)| one.0.total_cmp(&other.0)).map(|(advice, _)| *advice)
    };
    let of_all = heaviest(&|_| true);
    of_all
        .filter(|advice| *advice != Advice::HandOver || is_handed_over)
        .or_else(|| heaviest(&|advice| advice != Advice::HandOver))
        .unwrap_or(Advice::HandOver)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a word with this many reads and writes by each of these threads.
    fn word(reads: u64, writes: u64, readers: &[u32], writers: &[u32]) -> Use {
        let mut word = Use::default();
        for thread in readers {
            word.add(Count { thread: *thread, reads, writes: 0 });
        }
        for thread in writers {
            word.add(Count { thread: *thread, reads: 0, writes });
        }
        word
    }

    fn advice(words: &[Use]) -> Advice {
        judge(words, &Lives::new()).advice
    }

    #[test]
    fn padding_is_advised_for_false_sharing_alone() {
        let two = [word(100, 100, &[1], &[1]), word(100, 100, &[2], &[2])];
        assert_eq!(advice(&two), Advice::Separate);
        let mut elements = two.clone();
        elements[1].element.1 = "[1]".to_owned();
        assert_eq!(advice(&elements), Advice::PadElements);
        assert_eq!(advice(&[word(0, 1_000, &[], &[1, 2, 3, 4])]), Advice::Split);
        assert_eq!(advice(&[word(10_000, 10, &[1, 2, 3], &[1])]), Advice::ReadMostly);
        assert_eq!(advice(&[word(1, 1, &[1], &[1])]), Advice::HandOver);
    }

    #[test]
    fn what_a_line_holds_beside_a_word_that_all_read_is_put_apart() {
        let read_and_counted = [word(10_000, 0, &[1, 2, 3], &[]), word(0, 10_000, &[], &[1])];
        assert_eq!(advice(&read_and_counted), Advice::Separate);
    }

    #[test]
    fn threads_that_ran_one_after_the_other_do_not_count_as_rivals() {
        // Two generations of two threads: each thread writes one word, and never while another thread writes it.
        let words = [word(100, 100, &[1, 3], &[1, 3]), word(100, 100, &[2, 4], &[2, 4])];
        let lives = Lives::from([(1, (1, 10)), (2, (2, 11)), (3, (12, 20)), (4, (13, 21))]);
        assert_eq!(judge(&words, &lives).advice, Advice::Separate);
    }

    #[test]
    fn a_lock_stays_with_its_data_but_not_with_the_next_elements() {
        let mut locked = [word(0, 100, &[], &[1, 2]), word(100, 100, &[1, 2], &[1, 2])];
        locked[0].is_lock = true;
        assert_eq!(advice(&locked), Advice::LockApart, "the data is used without the lock");
        locked[1].locked = 400;
        assert_eq!(advice(&locked), Advice::LockAndData, "used with the lock alone");
        // The end of one bucket and the lock of the next bucket.
        locked[1].element.1 = "[1]".to_owned();
        assert_eq!(advice(&locked), Advice::PadElements);
        locked[0].counts.iter_mut().for_each(|its| its.writes = 10);
        assert_eq!(advice(&locked), Advice::LockAndData, "all threads want one bucket");
    }

    #[test]
    fn neighbours_of_different_names_are_no_elements() {
        let mut two = [word(100, 100, &[1], &[1]), word(100, 100, &[2], &[2])];
        two[1].element.0 = 8;
        two[1].name = 1;
        assert_eq!(advice(&two), Advice::Separate);
    }

    #[test]
    fn the_two_indices_of_a_ring_get_lines_of_their_own() {
        let ring = [word(100, 100, &[1, 2], &[1]), word(100, 100, &[1, 2], &[2])];
        assert_eq!(advice(&ring), Advice::OwnWords);
        let copied = [word(100, 100, &[1], &[1]), word(100, 100, &[2], &[2])];
        assert_eq!(advice(&copied), Advice::Separate, "each thread has a copy of the other's word");
        let mut elements = ring.clone();
        elements[0].element.1 = "[0]".to_owned();
        elements[1].element.1 = "[1]".to_owned();
        assert_eq!(advice(&elements), Advice::PadElements);
        let one_side = [word(100, 100, &[1, 2], &[1]), word(100, 100, &[1], &[1])];
        assert_eq!(advice(&one_side), Advice::HandOver);
    }

    /// Returns the advice for a ring's first line and for a line of its items after accesses in this order.
    fn ring(accesses: &[(u32, usize, bool)]) -> BTreeMap<Advice, (f64, u64)> {
        let mut words = vec![Use::default(); 16];
        // The cost of a line depends on the order: each change of its thread costs 1.
        let (mut owners, mut costs) = ([0, 0], [0, 0]);
        for (thread, at, writes) in accesses.iter().copied() {
            let (reads, writes) = (u64::from(!writes), u64::from(writes));
            words[at].add(Count { thread, reads, writes });
            costs[at / 8] += u64::from(owners[at / 8] != thread);
            owners[at / 8] = thread;
        }
        let mut advice: BTreeMap<Advice, (f64, u64)> = BTreeMap::new();
        for (words, cost) in words.chunks(8).zip(costs) {
            let judged = judge(words, &Lives::new());
            let its = advice.entry(judged.advice).or_default();
            its.0 += judged.weight;
            its.1 += cost;
        }
        advice
    }

    #[test]
    fn the_advice_for_a_ring_is_the_same_in_every_schedule() {
        const ITEMS: usize = 4_096;
        let (head, tail) = (0, 1);
        let slot = |item: usize| 8 + item % 8;
        let produced =
            |item| [(1, head, false), (1, tail, false), (1, slot(item), true), (1, head, true)];
        let consumed =
            |item| [(2, tail, false), (2, head, false), (2, slot(item), false), (2, tail, true)];
        let in_batches = |batch: usize| {
            let batches = (0..ITEMS).step_by(batch).map(|first| first..first + batch);
            let turns = batches.flat_map(|items| {
                items.clone().flat_map(produced).chain(items.flat_map(consumed)).collect::<Vec<_>>()
            });
            turns.collect::<Vec<_>>()
        };
        let mut spins = in_batches(64);
        // The consumer waits for the first item, and the producer for the last.
        spins.splice(0..0, (0..100_000).map(|_| (2, head, false)));
        spins.extend((0..100_000).map(|_| (1, tail, false)));
        for schedule in [in_batches(1), in_batches(64), in_batches(ITEMS), spins] {
            let lines = ring(&schedule);
            assert_eq!(of_lines(&lines), Advice::OwnWords, "{lines:?}");
        }
    }

    #[test]
    fn lines_that_only_pass_on_data_count_by_time_and_by_conflicts() {
        let of = |passed: (f64, u64), padded: (f64, u64)| {
            of_lines(&BTreeMap::from([(Advice::HandOver, passed), (Advice::PadElements, padded)]))
        };
        assert_eq!(of((10.0, 10), (1.0, 1)), Advice::HandOver);
        assert_eq!(of((10.0, 1), (1.0, 10)), Advice::PadElements, "a buffer, and its busy header");
        assert_eq!(of((1.0, 10), (10.0, 1)), Advice::PadElements);
        assert_eq!(of_lines(&BTreeMap::new()), Advice::HandOver);
    }

    #[test]
    fn summaries_fit_a_terminal_with_the_gain_behind_them() {
        use Advice::*;
        for advice in
            [Separate, PadElements, Split, LockAndData, LockApart, OwnWords, ReadMostly, HandOver]
        {
            assert!(advice.summary().chars().count() <= 56, "{advice:?}");
        }
    }
}

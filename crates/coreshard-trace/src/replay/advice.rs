//! Classifies the sharing of a line by its accesses, and recommends a remedy.

use serde::Serialize;

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
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Sorted threads that read it.
    pub(super) readers: Vec<u32>,
    /// Sorted threads that write it more often than its initialization does.
    pub(super) writers: Vec<u32>,
    pub(super) is_lock: bool,
    /// Accesses by a thread that held a lock on this line.
    pub(super) locked: u64,
    pub(super) misses: u64,
    /// The object that contains it, identified by its first byte, and the element of that object or of an array in it.
    pub(super) element: (u64, String),
    /// Index of its object among the names on this line; 0 for the costliest.
    pub(super) name: usize,
}

impl Use {
    /// Returns the only thread that writes it, if another thread reads it.
    fn only_writer_of_read(&self) -> Option<u32> {
        let [writer] = self.writers[..] else { return None };
        self.readers.iter().any(|reader| *reader != writer).then_some(writer)
    }
}

/// Classifies a line by its times and words, and selects the remedy.
pub(super) fn judge(true_ps: u64, false_ps: u64, words: &[Use]) -> (Sharing, Advice) {
    let sharing = Sharing::of(true_ps, false_ps);
    let is_false = false_ps > true_ps;
    let advice = if words.iter().any(|word| word.is_lock) {
        judge_lock(is_false, words)
    } else if is_false {
        judge_false(words)
    } else {
        judge_true(sharing, words)
    };
    (sharing, advice)
}

/// A lock's words and the data that it guards are used together, even if the accesses are to different bytes.
fn judge_lock(is_false: bool, words: &[Use]) -> Advice {
    if is_false && let Some(advice) = between_elements(contended(words)) {
        return advice;
    }
    let data = words.iter().filter(|word| !word.is_lock);
    let (uses, locked) = data.fold((0, 0), |(uses, locked), word| {
        (uses + word.reads + word.writes, locked + word.locked)
    });
    if is_false && locked * 2 < uses { Advice::LockApart } else { Advice::LockAndData }
}

fn judge_false(words: &[Use]) -> Advice {
    let written = contended(words).filter(|word| !word.writers.is_empty());
    let own = written.clone().filter(|word| word.writers.len() == 1).count();
    if own * 2 < written.clone().count() {
        return Advice::Separate;
    }
    between_elements(written).unwrap_or(Advice::Separate)
}

/// Returns the contended words: words with at least a twentieth of the most contended word's misses.
fn contended(words: &[Use]) -> impl Iterator<Item = &Use> + Clone {
    let most = words.iter().map(|word| word.misses).max().unwrap_or(0);
    words.iter().filter(move |word| word.misses * 20 >= most)
}

/// Returns the remedy for false sharing between elements or between objects, or none if the words are in one element.
fn between_elements<'words>(words: impl Iterator<Item = &'words Use>) -> Option<Advice> {
    let mut places: Vec<_> = words.map(|word| (word.name, &word.element)).collect();
    places.sort_unstable();
    places.dedup();
    let is_one_name = places.first()?.0 == places.last()?.0;
    (places.len() > 1).then_some(if is_one_name { Advice::PadElements } else { Advice::Separate })
}

/// Whether there are at least two different threads.
fn differ(mut threads: impl Iterator<Item = u32>) -> bool {
    threads.next().is_some_and(|first| threads.any(|other| other != first))
}

fn judge_true(sharing: Sharing, words: &[Use]) -> Advice {
    if differ(words.iter().filter_map(Use::only_writer_of_read)) {
        return Advice::OwnWords;
    }
    let sole = words.iter().filter_map(|word| match word.writers[..] {
        [writer] => Some(writer),
        _ => None,
    });
    if sharing == Sharing::Both && differ(sole) {
        return Advice::Separate;
    }
    let (reads, writes): (u64, u64) = words
        .iter()
        .fold((0, 0), |(reads, writes), word| (reads + word.reads, writes + word.writes));
    let hottest = words.iter().filter(|word| word.writes > 0).max_by_key(|word| word.misses);
    match hottest {
        Some(word) if word.writers.len() > 1 && word.writes > 8 * word.writers.len() as u64 => {
            Advice::Split
        }
        Some(word) if word.readers.len() > 1 && reads > 8 * writes => Advice::ReadMostly,
        _ => Advice::HandOver,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(reads: u64, writes: u64, readers: &[u32], writers: &[u32]) -> Use {
        let (readers, writers) = (readers.to_vec(), writers.to_vec());
        Use { reads, writes, readers, writers, misses: writes, ..Use::default() }
    }

    #[test]
    fn padding_is_advised_for_false_sharing_alone() {
        let two = [word(100, 100, &[1], &[1]), word(100, 100, &[2], &[2])];
        assert_eq!(judge(0, 100, &two), (Sharing::False, Advice::Separate));
        let mut elements = two.clone();
        elements[1].element.1 = "[1]".to_owned();
        assert_eq!(judge(1, 100, &elements), (Sharing::False, Advice::PadElements));
        let counter = [word(0, 1_000, &[], &[1, 2, 3, 4])];
        assert_eq!(judge(100, 0, &counter), (Sharing::True, Advice::Split));
        let read = [word(10_000, 10, &[1, 2, 3], &[1])];
        assert_eq!(judge(100, 0, &read), (Sharing::True, Advice::ReadMostly));
        assert_eq!(judge(100, 0, &[word(1, 1, &[1], &[1])]).1, Advice::HandOver);
        assert_eq!(judge(50, 60, &two).0, Sharing::Both);
    }

    #[test]
    fn a_lock_stays_with_its_data_but_not_with_the_next_elements() {
        let mut locked = [word(0, 100, &[], &[1, 2]), word(100, 100, &[1, 2], &[1, 2])];
        locked[0].is_lock = true;
        assert_eq!(judge(100, 10, &locked), (Sharing::True, Advice::LockAndData));
        assert_eq!(judge(10, 100, &locked).1, Advice::LockApart);
        locked[1].locked = 200;
        assert_eq!(judge(10, 100, &locked).1, Advice::LockAndData, "used with the lock alone");
        // The end of one bucket and the lock of the next bucket.
        locked[1].element.1 = "[1]".to_owned();
        assert_eq!(judge(10, 100, &locked).1, Advice::PadElements);
        assert_eq!(judge(100, 10, &locked).1, Advice::LockAndData, "all threads want one bucket");
    }

    #[test]
    fn neighbours_of_different_names_are_no_elements() {
        let mut two = [word(100, 100, &[1], &[1]), word(100, 100, &[2], &[2])];
        two[1].element.0 = 8;
        two[1].name = 1;
        assert_eq!(judge(0, 100, &two).1, Advice::Separate);
    }

    #[test]
    fn the_two_indices_of_a_ring_get_lines_of_their_own() {
        let ring = [word(100, 100, &[1, 2], &[1]), word(100, 100, &[1, 2], &[2])];
        assert_eq!(judge(100, 0, &ring), (Sharing::True, Advice::OwnWords));
        let one_side = [word(100, 100, &[1, 2], &[1]), word(100, 100, &[1], &[1])];
        assert_eq!(judge(100, 0, &one_side).1, Advice::HandOver);
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

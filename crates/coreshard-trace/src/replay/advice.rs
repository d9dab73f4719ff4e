//! Judges a line by its accesses, and says what would help.

use serde::Serialize;

/// Whether threads want the same bytes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Different bytes: the line is shared, and what is on it is not.
    False,
    /// The same bytes.
    True,
    /// Both, each for a fifth of the time at least.
    Both,
}

/// What helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Put what different threads write on lines of its own.
    Separate,
    /// Each element of an array belongs to a thread: let each begin a line.
    PadElements,
    /// One word is changed by all: let each thread or CPU have its own, and add them up when it is read.
    Split,
    /// A lock, and what it guards: they belong together. Hold it shorter, or have several.
    LockAndData,
    /// A lock that others' data lie beside.
    LockApart,
    /// Many read what few write: move what is written away from what is read, or write it less often.
    ReadMostly,
    /// The data itself goes from thread to thread, once: nothing of the layout helps.
    HandOver,
}

impl Advice {
    /// The advice in a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Separate => "false sharing: give what different threads write lines of its own",
            Self::PadElements => "false sharing between elements: let each element begin a line",
            Self::Split => {
                "true sharing of one word, which padding does not help: give each thread or CPU its own, and add them up \
                 when the sum is read"
            }
            Self::LockAndData => {
                "a lock and what it guards, which belong on one line: padding does not help; hold it shorter, or have several"
            }
            Self::LockApart => {
                "a lock beside data that others use without it: give the lock a line of its own"
            }
            Self::ReadMostly => {
                "true sharing of what many read and few write: padding does not help; write it less often, or let each \
                 reader have a copy"
            }
            Self::HandOver => {
                "data that goes from one thread to the next: nothing of its layout helps"
            }
        }
    }
}

/// One word of a line, as far as advice needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) readers: usize,
    /// Of those that write it more than its making takes.
    pub(super) writers: usize,
    pub(super) is_lock: bool,
    /// Of its reads and writes, those by a thread that had a lock of this line.
    pub(super) locked: u64,
    pub(super) misses: u64,
    /// The element of its array that it lies in.
    pub(super) element: u64,
}

/// Judges a line by its times and its words.
pub(super) fn judge(true_ps: u64, false_ps: u64, words: &[Use]) -> (Sharing, Advice) {
    let all = (true_ps + false_ps).max(1);
    let sharing = match (true_ps * 5 >= all, false_ps * 5 >= all) {
        (true, true) => Sharing::Both,
        (false, _) => Sharing::False,
        (true, false) => Sharing::True,
    };
    let written = words.iter().filter(|word| word.writes > 0);
    if words.iter().any(|word| word.is_lock) {
        // A lock's words, and what it guards, are wanted together, whichever of their bytes are.
        let data = words.iter().filter(|word| !word.is_lock);
        let (uses, locked) = data.fold((0, 0), |(uses, locked), word| {
            (uses + word.reads + word.writes, locked + word.locked)
        });
        let is_apart = false_ps > true_ps && locked * 2 < uses;
        let advice = if is_apart { Advice::LockApart } else { Advice::LockAndData };
        return (sharing, advice);
    }
    if false_ps > true_ps {
        let written = written.filter(|word| word.writers > 0);
        let mut elements: Vec<_> = written.clone().map(|word| word.element).collect();
        elements.sort_unstable();
        elements.dedup();
        let own = written.clone().filter(|word| word.writers == 1).count() * 2 >= written.count();
        let advice = if elements.len() > 1 && own { Advice::PadElements } else { Advice::Separate };
        return (sharing, advice);
    }
    let (reads, writes): (u64, u64) = words
        .iter()
        .fold((0, 0), |(reads, writes), word| (reads + word.reads, writes + word.writes));
    let hottest = written.max_by_key(|word| word.misses);
    let advice = match hottest {
        Some(word) if word.writers > 1 && word.writes > 8 * word.writers as u64 => Advice::Split,
        Some(word) if word.readers > 1 && reads > 8 * writes => Advice::ReadMostly,
        _ => Advice::HandOver,
    };
    (sharing, advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(reads: u64, writes: u64, readers: usize, writers: usize) -> Use {
        Use {
            reads,
            writes,
            readers,
            writers,
            is_lock: false,
            locked: 0,
            misses: writes,
            element: 0,
        }
    }

    #[test]
    fn padding_is_advised_for_false_sharing_alone() {
        let two = [word(100, 100, 1, 1), word(100, 100, 1, 1)];
        assert_eq!(judge(0, 100, &two), (Sharing::False, Advice::Separate));
        let mut elements = two.clone();
        elements[1].element = 1;
        assert_eq!(judge(1, 100, &elements), (Sharing::False, Advice::PadElements));
        let counter = [word(0, 1_000, 0, 4)];
        assert_eq!(judge(100, 0, &counter), (Sharing::True, Advice::Split));
        let mut locked = [word(0, 100, 0, 2), word(100, 100, 2, 2)];
        locked[0].is_lock = true;
        assert_eq!(judge(100, 10, &locked), (Sharing::True, Advice::LockAndData));
        assert_eq!(judge(10, 100, &locked).1, Advice::LockApart);
        locked[1].locked = 200;
        assert_eq!(
            judge(10, 100, &locked).1,
            Advice::LockAndData,
            "it is used with the lock alone"
        );
        let read = [word(10_000, 10, 8, 1)];
        assert_eq!(judge(100, 0, &read), (Sharing::True, Advice::ReadMostly));
        assert_eq!(judge(100, 0, &[word(1, 1, 1, 1)]).1, Advice::HandOver);
        assert_eq!(judge(50, 60, &two).0, Sharing::Both);
    }
}

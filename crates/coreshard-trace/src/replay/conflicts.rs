//! Conflicts between threads on a line, from what each thread does to each word.
//!
//! A recording holds one schedule, and a replay another. How often each thread found the line elsewhere depends on them: two
//! threads that alternate lose it at every turn, and two that take turns of 64 rarely. The counts here do not depend on the
//! schedule: they estimate how often accesses would conflict if concurrent threads' accesses were mixed at random.

use std::collections::{BTreeMap, HashMap};

/// When threads were created and joined, by tickets. Threads that were not joined before another was created could have run
/// beside it, even if they did not.
pub(super) type Lives = HashMap<u32, (u64, u64)>;

/// Accesses by one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) thread: u32,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

/// The expected conflicts of one word's accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Conflicts {
    /// With accesses of the same word.
    pub(super) word: f64,
    /// With accesses of the same element.
    pub(super) element: f64,
    /// With accesses of the line.
    pub(super) line: f64,
}

impl Conflicts {
    pub(super) fn sum<'all>(all: impl IntoIterator<Item = &'all Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, its| Self {
            word: sum.word + its.word,
            element: sum.element + its.element,
            line: sum.line + its.line,
        })
    }
}

/// The threads of a line, with the pairs that can run at the same time.
struct Peers {
    threads: Vec<u32>,
    /// Indices of threads, sorted by end.
    by_end: Vec<usize>,
    /// Indices of threads, sorted by begin.
    by_begin: Vec<usize>,
    /// For each thread, how many end before it begins and how many begin before it ends.
    apart: Vec<(usize, usize)>,
}

impl Peers {
    fn of(words: &[&[Count]], lives: &Lives) -> Self {
        let mut threads: Vec<_> =
            words.iter().flat_map(|counts| counts.iter().map(|its| its.thread)).collect();
        threads.sort_unstable();
        threads.dedup();
        let life = |place: usize| lives.get(&threads[place]).copied().unwrap_or((0, u64::MAX));
        let (mut by_end, mut by_begin): (Vec<_>, Vec<_>) =
            ((0..threads.len()).collect(), (0..threads.len()).collect());
        by_end.sort_by_key(|place| life(*place).1);
        by_begin.sort_by_key(|place| life(*place).0);
        let apart = (0..threads.len()).map(|place| {
            let (begin, end) = life(place);
            let ended = by_end.partition_point(|other| life(*other).1 < begin);
            (ended, by_begin.partition_point(|other| life(*other).0 <= end))
        });
        let apart = apart.collect();
        Self { threads, by_end, by_begin, apart }
    }

    /// Returns a word's values by thread.
    fn spread(&self, counts: &[Count], value: impl Fn(usize, &Count) -> u64) -> Vec<u64> {
        let mut values = vec![0; self.threads.len()];
        for its in counts {
            if let Ok(place) = self.threads.binary_search(&its.thread) {
                values[place] += value(place, its);
            }
        }
        values
    }

    /// Returns for each thread the sum of the values of concurrent threads.
    fn others(&self, values: &[u64]) -> Vec<u64> {
        let sums = |order: &[usize]| {
            let mut sums = vec![0];
            for place in order {
                sums.push(sums[sums.len() - 1] + values[*place]);
            }
            sums
        };
        let (ended, begun) = (sums(&self.by_end), sums(&self.by_begin));
        let sum_of = |(place, (before, until)): (usize, &(usize, usize))| {
            begun[*until].saturating_sub(ended[*before]).saturating_sub(values[place])
        };
        self.apart.iter().enumerate().map(sum_of).collect()
    }
}

/// Accesses of a word or an element by thread, with the accesses by concurrent threads.
struct Uses {
    reads: Vec<u64>,
    writes: Vec<u64>,
    others_writes: Vec<u64>,
    others_uses: Vec<u64>,
}

impl Uses {
    fn of(peers: &Peers, reads: Vec<u64>, writes: Vec<u64>) -> Self {
        let uses: Vec<_> =
            reads.iter().zip(&writes).map(|(reads, writes)| reads + writes).collect();
        let (others_writes, others_uses) = (peers.others(&writes), peers.others(&uses));
        Self { reads, writes, others_writes, others_uses }
    }

    fn sum<'all>(peers: &Peers, all: impl Iterator<Item = &'all Self> + Clone) -> Self {
        let sum = |of: fn(&Self) -> &Vec<u64>| {
            let all = all.clone();
            (0..peers.threads.len()).map(|at| all.clone().map(|its| of(its)[at]).sum()).collect()
        };
        Self::of(peers, sum(|its| &its.reads), sum(|its| &its.writes))
    }
}

/// Returns the expected conflicts of each word, given by its counts and the number of its element.
///
/// A read conflicts with the write of another thread before it, and a write with any use by another thread before it. Of a
/// thread's reads, as many can conflict as there are writes by others: reads beyond them, such as the reads of a spinning thread,
/// find the line.
pub(super) fn conflicts(words: &[(&[Count], usize)], lives: &Lives) -> Vec<Conflicts> {
    let counts: Vec<&[Count]> = words.iter().map(|(counts, _)| *counts).collect();
    let peers = Peers::of(&counts, lives);
    let mut writes_of_line = vec![0; peers.threads.len()];
    for its in &counts {
        let writes = peers.spread(its, |_, its| its.writes);
        writes_of_line.iter_mut().zip(writes).for_each(|(sum, writes)| *sum += writes);
    }
    let most_reads = peers.others(&writes_of_line);
    let uses_of = |its: &[Count]| {
        let reads = peers.spread(its, |place, its| its.reads.min(most_reads[place]));
        Uses::of(&peers, reads, peers.spread(its, |_, its| its.writes))
    };
    let uses: Vec<_> = counts.iter().map(|its| uses_of(its)).collect();
    let line = Uses::sum(&peers, uses.iter());
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    let mut elements: BTreeMap<usize, Uses> = BTreeMap::new();
    let of_word = |((_, element), word): (&(&[Count], usize), &Uses)| {
        let element = &*elements.entry(*element).or_insert_with(|| {
            let same = words.iter().zip(&uses).filter(|((_, its), _)| its == element);
            Uses::sum(&peers, same.map(|(_, uses)| uses))
        });
        (0..peers.threads.len()).fold(Conflicts::default(), |sum, at| {
            let reads = line.reads[at].min(line.others_writes[at]) as f64
                * share(word.reads[at], line.reads[at]);
            let writes = line.writes[at].min(line.others_uses[at]) as f64
                * share(word.writes[at], line.writes[at]);
            let with = |its: &Uses| {
                reads * share(its.others_writes[at], line.others_writes[at])
                    + writes * share(its.others_uses[at], line.others_uses[at])
            };
            Conflicts {
                word: sum.word + with(word),
                element: sum.element + with(element),
                line: sum.line + reads + writes,
            }
        })
    };
    words.iter().zip(&uses).map(of_word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(thread: u32, reads: u64, writes: u64) -> Count {
        Count { thread, reads, writes }
    }

    #[test]
    fn own_words_conflict_with_the_line_and_not_with_themselves() {
        let (one, two) = ([count(1, 100, 100)], [count(2, 100, 100)]);
        let found = conflicts(&[(&one, 0), (&two, 0)], &Lives::new());
        assert_eq!((found[0].word, found[0].element, found[0].line), (0.0, 200.0, 200.0));
        let found = conflicts(&[(&one, 0), (&two, 1)], &Lives::new());
        assert_eq!(Conflicts::sum(&found), Conflicts { word: 0.0, element: 0.0, line: 400.0 });
    }

    #[test]
    fn threads_that_ran_one_after_the_other_have_no_conflicts() {
        let word = [count(1, 0, 100), count(2, 0, 100)];
        let lives = Lives::from([(1, (10, 20)), (2, (21, 30))]);
        assert_eq!(conflicts(&[(&word, 0)], &lives)[0].line, 0.0);
        let lives = Lives::from([(1, (10, 22)), (2, (21, 30))]);
        assert_eq!(conflicts(&[(&word, 0)], &lives)[0].line, 200.0);
    }

    #[test]
    fn a_spinning_thread_has_no_more_conflicts_than_there_are_writes() {
        let word = [count(1, 0, 10), count(2, 1_000_000, 0)];
        let found = conflicts(&[(&word, 0)], &Lives::new())[0];
        assert_eq!((found.word, found.line), (20.0, 20.0));
    }
}

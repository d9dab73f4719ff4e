//! Deadlines in order: a heap with four children a node, and a place for each entry that stays,
//! so that an entry can be taken out of the middle.
//!
//! Adding, removing and taking the first are O(log n); the common cases (a deadline later than
//! most, one that is cancelled long before it is due) move one or two nodes. A hierarchical wheel
//! has O(1) for all three, but rounds deadlines or cascades, and must look for its next deadline;
//! nothing here ticks, and no deadline is rounded.

use coreshard_platform::Time;

const CHILDREN: usize = 4;

/// The last epoch of a place. A place that has reached it is not used again, so no two entries ever have equal keys. Unit
/// tests use places up quickly.
const LAST_EPOCH: u32 = if cfg!(test) { 7 } else { u32::MAX };

/// Identifies an entry until it is removed; a key to a removed entry finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    place: u32,
    epoch: u32,
}

impl Key {
    /// The key of no entry.
    pub(crate) const NONE: Self = Self { place: u32::MAX, epoch: 0 };
}

#[derive(Clone, Copy)]
struct Node {
    deadline: Time,
    /// The order of arrival, so that equal deadlines fire in that order.
    turn: u64,
    place: u32,
}

impl Node {
    fn is_before(&self, other: &Self) -> bool {
        (self.deadline, self.turn) < (other.deadline, other.turn)
    }
}

struct HeapSlot<T> {
    epoch: u32,
    /// The index of its node, while it has an entry.
    at: u32,
    entry: Option<T>,
}

pub(crate) struct Heap<T> {
    nodes: Vec<Node>,
    places: Vec<HeapSlot<T>>,
    free: Vec<u32>,
    turn: u64,
}

impl<T> Heap<T> {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), places: Vec::new(), free: Vec::new(), turn: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Adds an entry. Returns it if the heap is full, at 2³² − 1 entries.
    pub(crate) fn insert(&mut self, deadline: Time, entry: T) -> Result<Key, T> {
        let at = self.nodes.len() as u32;
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let next = u32::try_from(self.places.len()).ok().filter(|next| *next != u32::MAX);
                let Some(next) = next else { return Err(entry) };
                self.places.push(HeapSlot { epoch: 0, at, entry: None });
                next
            }
        };
        let home = &mut self.places[place as usize];
        home.entry = Some(entry);
        let key = Key { place, epoch: home.epoch };
        self.turn += 1;
        self.nodes.push(Node { deadline, turn: self.turn, place });
        self.rise(at as usize);
        Ok(key)
    }

    /// Removes an entry; `None` if it was removed before.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let home = self.places.get(key.place as usize)?;
        if home.epoch != key.epoch || home.entry.is_none() {
            return None;
        }
        self.take_out(home.at as usize)
    }

    /// Removes the matching entries among the places in `part`; `None` beyond the last place.
    pub(crate) fn take_where(
        &mut self,
        part: std::ops::Range<usize>,
        is_to_go: impl Fn(&T) -> bool,
    ) -> Option<Vec<T>> {
        let part = part.start..part.end.min(self.places.len());
        if part.is_empty() {
            return None;
        }
        let go = |place: &usize| self.places[*place].entry.as_ref().is_some_and(&is_to_go);
        let go: Vec<usize> = part.filter(go).collect();
        Some(
            go.into_iter()
                .filter_map(|place| self.take_out(self.places[place].at as usize))
                .collect(),
        )
    }

    /// The earliest deadline.
    pub(crate) fn first(&self) -> Option<Time> {
        self.nodes.first().map(|node| node.deadline)
    }

    /// Removes the first entry, if it is due.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<T> {
        self.first().filter(|deadline| *deadline <= now)?;
        self.take_out(0)
    }

    fn take_out(&mut self, at: usize) -> Option<T> {
        let node = self.nodes.swap_remove(at);
        if at < self.nodes.len() {
            self.settle(at);
            self.rise(at);
            self.sink(at);
        }
        let home = &mut self.places[node.place as usize];
        home.epoch += 1;
        if home.epoch < LAST_EPOCH {
            self.free.push(node.place);
        }
        home.entry.take()
    }

    fn settle(&mut self, at: usize) {
        let place = self.nodes[at].place as usize;
        self.places[place].at = at as u32;
    }

    fn rise(&mut self, mut at: usize) {
        let node = self.nodes[at];
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if !node.is_before(&self.nodes[parent]) {
                break;
            }
            self.nodes[at] = self.nodes[parent];
            self.settle(at);
            at = parent;
        }
        self.nodes[at] = node;
        self.settle(at);
    }

    fn sink(&mut self, mut at: usize) {
        let node = self.nodes[at];
        loop {
            let first = at * CHILDREN + 1;
            let last = (first + CHILDREN).min(self.nodes.len());
            let Some(child) = (first..last).reduce(|best, other| {
                if self.nodes[other].is_before(&self.nodes[best]) { other } else { best }
            }) else {
                break;
            };
            if !self.nodes[child].is_before(&node) {
                break;
            }
            self.nodes[at] = self.nodes[child];
            self.settle(at);
            at = child;
        }
        self.nodes[at] = node;
        self.settle(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Remove(usize),
        PopDue(u64),
        /// Entries whose name has this remainder by three.
        TakeWhere(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..50_u64).prop_map(Step::Insert),
            1 => any::<usize>().prop_map(Step::Remove),
            2 => (0..60_u64).prop_map(Step::PopDue),
            1 => (0..3_usize).prop_map(Step::TakeWhere),
        ]
    }

    proptest! {
        /// Against a list that is sorted by deadline and arrival.
        #[test]
        fn entries_come_out_as_from_a_sorted_list(steps in prop::collection::vec(step(), 0..200)) {
            let mut heap = Heap::new();
            let mut oracle: Vec<(u64, usize)> = Vec::new();
            let mut keys = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(deadline) => {
                        let name = keys.len();
                        let key = heap.insert(Time::from_ns(deadline), name).unwrap();
                        keys.push(key);
                        let at = oracle.partition_point(|(other, _)| *other <= deadline);
                        oracle.insert(at, (deadline, name));
                    }
                    Step::Remove(any) if !keys.is_empty() => {
                        let name = any % keys.len();
                        let expected = oracle.iter().position(|(_, other)| *other == name);
                        let removed = expected.map(|at| oracle.remove(at).1);
                        prop_assert_eq!(heap.remove(keys[name]), removed);
                    }
                    Step::Remove(_) => {}
                    Step::TakeWhere(rest) => {
                        let mut taken = Vec::new();
                        let parts = (0..).map(|part| 7 * part..7 * (part + 1));
                        parts.map_while(|part| heap.take_where(part, |name| name % 3 == rest))
                            .for_each(|some| taken.extend(some));
                        taken.sort_unstable();
                        let (mut expected, left): (Vec<_>, Vec<_>) =
                            oracle.into_iter().partition(|(_, name)| name % 3 == rest);
                        oracle = left;
                        expected.sort_unstable_by_key(|(_, name)| *name);
                        prop_assert_eq!(taken, expected.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
                    }
                    Step::PopDue(now) => {
                        let expected = oracle.first().is_some_and(|(first, _)| *first <= now);
                        let popped = expected.then(|| oracle.remove(0).1);
                        prop_assert_eq!(heap.pop_due(Time::from_ns(now)), popped);
                    }
                }
                prop_assert_eq!(heap.len(), oracle.len());
                let first = oracle.first().map(|(first, _)| Time::from_ns(*first));
                prop_assert_eq!(heap.first(), first);
            }
        }
    }

    /// Fails if a place is used again after its last epoch.
    #[test]
    fn no_two_entries_have_equal_keys() {
        let mut heap = Heap::new();
        let first = heap.insert(Time::from_ns(1), 0).unwrap();
        for entry in 0..100 {
            assert_eq!(heap.pop_due(Time::from_ns(1)), Some(entry));
            let key = heap.insert(Time::from_ns(1), entry + 1).unwrap();
            assert_ne!(key, first);
            assert_eq!(heap.remove(first), None);
        }
    }

    #[test]
    fn a_key_to_an_entry_that_is_gone_finds_nothing() {
        let mut heap = Heap::new();
        let old = heap.insert(Time::from_ns(1), 'a').unwrap();
        assert_eq!(heap.pop_due(Time::from_ns(1)), Some('a'));
        let new = heap.insert(Time::from_ns(2), 'b').unwrap();
        assert_eq!(heap.remove(old), None, "the place has another entry");
        assert_eq!(heap.remove(new), Some('b'));
        assert_eq!(heap.remove(new), None);
    }
}

//! The memory that the threads of a contention share.

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform};

use super::description::{Contention, Copies, Operation, WORDS_OF_LINE};

/// A described word: 8 bytes, of which locks use both halves.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Slot<P: Platform> {
    pub(super) word: P::AtomicU32,
    pub(super) other: P::AtomicU32,
}

const SLOTS_OF_BLOCK: usize = 2 * WORDS_OF_LINE;

/// Two lines, as prefetchers fetch pairs.
#[repr(C, align(128))]
#[derive(Debug)]
struct Block<P: Platform>([Slot<P>; SLOTS_OF_BLOCK]);

/// A waiter's place in the queue of a lock, on lines of its own. [`QueueNode::state`] is the word that it spins
/// on.
#[repr(C, align(128))]
#[derive(Debug)]
pub(super) struct QueueNode<P: Platform> {
    pub(super) state: P::AtomicU32,
    /// The number of the next node, from 1 on; 0: none.
    pub(super) next: P::AtomicU32,
}

/// The copies of an object.
#[derive(Debug)]
struct ObjectCopies<P: Platform> {
    blocks: Vec<Block<P>>,
    copies: Copies,
    stride: usize,
}

/// The memory that threads share.
#[derive(Debug)]
pub(super) struct SharedMemory<P: Platform> {
    objects: Vec<ObjectCopies<P>>,
    nodes: Vec<QueueNode<P>>,
}

/// Which copy of an object a thread uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) thread: usize,
    /// The position of its CPU in the machine's list.
    pub(super) cpu: usize,
}

impl<P: Platform> SharedMemory<P> {
    pub(super) fn new(contention: &Contention, threads: usize, cpus: usize) -> Self {
        let word = || P::AtomicU32::new(0);
        let block = || Block(std::array::from_fn(|_| Slot { word: word(), other: word() }));
        let count = |copies| match copies {
            Copies::One => 1,
            Copies::PerShard(of_shard) => cpus.div_ceil(of_shard),
            Copies::PerThread => threads,
        };
        let objects: Vec<_> = contention
            .objects
            .iter()
            .map(|object| {
                let (stride, copies) = (object.stride(), object.copies);
                let blocks = (count(copies) * stride).div_ceil(SLOTS_OF_BLOCK);
                let blocks = (0..blocks).map(|_| block()).collect();
                ObjectCopies { blocks, copies, stride }
            })
            .collect();
        let node = || QueueNode { state: word(), next: word() };
        let nodes = (0..threads).map(|_| node()).collect();
        let mut shared = Self { objects, nodes };
        // The queue of a combining lock always has a node: at first one that nothing waits for.
        let mut words: Vec<_> = contention
            .steps
            .iter()
            .filter(|step| step.operation == Operation::Combine)
            .map(|step| step.word)
            .collect();
        words.sort_unstable();
        words.dedup();
        for word in words {
            for copy in 0..count(contention.objects[word.0].copies) {
                shared.nodes.push(node());
                shared.slot_of_copy(word, copy).word.store(shared.nodes.len() as u32, Relaxed);
            }
        }
        shared
    }

    fn slot_of_copy(&self, (object, word): (usize, usize), copy: usize) -> &Slot<P> {
        let object = &self.objects[object];
        let at = copy * object.stride + word;
        &object.blocks[at / SLOTS_OF_BLOCK].0[at % SLOTS_OF_BLOCK]
    }

    /// Returns a thread's copy of a word.
    pub(super) fn slot(&self, word: (usize, usize), seat: Seat) -> &Slot<P> {
        let copy = match self.objects[word.0].copies {
            Copies::One => 0,
            Copies::PerShard(of_shard) => seat.cpu / of_shard,
            Copies::PerThread => seat.thread,
        };
        self.slot_of_copy(word, copy)
    }

    /// Returns a node by its number, from 1 on.
    pub(super) fn node(&self, number: u32) -> &QueueNode<P> {
        &self.nodes[number as usize - 1]
    }
}

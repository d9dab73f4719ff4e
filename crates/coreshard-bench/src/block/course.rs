//! The sequence of a thread's requests: read or write, offset, and size.

use super::device::Extent;
use super::job::{BlockJob, Pattern};
use super::permutation::{BlockSet, Permutation};

/// A request to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) writes: bool,
    pub(super) offset: u64,
    /// The size, as an index into the course's sizes.
    pub(super) size: usize,
}

/// The order of blocks.
enum Order {
    /// One after another, and then from the start again.
    Sequential { next: u64 },
    /// Randomly (`norandommap`).
    Random,
    /// Randomly, each block once per round. With several sizes, also the blocks that larger requests have
    /// covered.
    Mapped { permutation: Permutation, covered: Option<BlockSet> },
}

/// The sequence of a thread's requests.
pub(super) struct Course {
    pattern: Pattern,
    rwmixread: u8,
    /// The sizes in bytes, ascending; each is a multiple of the first.
    sizes: Vec<u64>,
    /// The cumulative share of each size, in per cent.
    shares: Vec<u8>,
    start: u64,
    /// The number of blocks of the first size.
    blocks: u64,
    order: Order,
    dice: fastrand::Rng,
    io_bytes: u64,
    number_ios: u64,
    /// The remaining bytes of this pass.
    left_bytes: u64,
    left_ios: u64,
    /// The blocks that were written in this pass, if they will be verified.
    written: Option<BlockSet>,
}

impl Course {
    pub(super) fn new(job: &BlockJob, extent: Extent, seed: u64, thread: usize) -> Self {
        let split = job.split();
        let sizes: Vec<u64> = split.iter().map(|(bytes, _)| u64::from(*bytes)).collect();
        let mut share = 0;
        let shares = split.iter().map(|(_, percent)| {
            share += percent;
            share
        });
        let shares = shares.collect();
        let blocks = extent.bytes / sizes[0];
        let mut dice = fastrand::Rng::with_seed(seed ^ (thread as u64 + 1) << 32);
        let order = if !job.rw.is_random() {
            Order::Sequential { next: 0 }
        } else if job.norandommap {
            Order::Random
        } else {
            let permutation = Permutation::new(blocks, &mut dice);
            Order::Mapped { permutation, covered: (sizes.len() > 1).then(|| BlockSet::new(blocks)) }
        };
        // As in fio, a time-based job is ended only by the time.
        let lasts = job.lasts();
        Self {
            pattern: job.rw,
            rwmixread: job.rwmixread,
            sizes,
            shares,
            start: extent.start,
            blocks,
            order,
            dice,
            io_bytes: if lasts { u64::MAX } else { extent.io_bytes },
            number_ios: job.number_ios.filter(|_| !lasts).unwrap_or(u64::MAX),
            left_bytes: 0,
            left_ios: 0,
            written: (job.verify && job.rw.writes()).then(|| BlockSet::new(blocks)),
        }
    }

    /// Begins a pass (`loops`), if the last one has ended.
    pub(super) fn begin_pass(&mut self) {
        (self.left_bytes, self.left_ios) = (self.io_bytes, self.number_ios);
        if let Some(written) = &mut self.written {
            written.clear();
        }
    }

    /// Ends the pass.
    pub(super) fn stop(&mut self) {
        (self.left_bytes, self.left_ios) = (0, 0);
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.left_bytes == 0 || self.left_ios == 0
    }

    /// Returns whether the job both reads and writes.
    pub(super) fn is_mixed(&self) -> bool {
        matches!(self.pattern, Pattern::Mixed | Pattern::RandMixed)
    }

    /// Returns whether the next request is a write.
    #[inline]
    pub(super) fn direction(&mut self) -> bool {
        match self.pattern {
            Pattern::Read | Pattern::RandRead => false,
            Pattern::Write | Pattern::RandWrite => true,
            Pattern::Mixed | Pattern::RandMixed => self.dice.u8(..100) >= self.rwmixread,
        }
    }

    /// Returns the next request of a pass that has not ended.
    #[inline]
    pub(super) fn transfer(&mut self, writes: bool) -> Transfer {
        let (block, size) = self.place();
        let bytes = self.sizes[size];
        self.left_ios -= 1;
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        if let Some(written) = self.written.as_mut().filter(|_| writes) {
            (block..block + bytes / self.sizes[0]).for_each(|block| written.insert(block));
        }
        Transfer { writes, offset: self.start + block * self.sizes[0], size }
    }

    #[inline]
    fn place(&mut self) -> (u64, usize) {
        let Self { sizes, shares, dice, blocks, .. } = self;
        match &mut self.order {
            Order::Sequential { next } => {
                let block = *next;
                let size = choose(sizes, shares, dice, *blocks - block);
                *next = block + sizes[size] / sizes[0];
                if *next == *blocks {
                    *next = 0;
                }
                (block, size)
            }
            Order::Random => {
                let block = dice.u64(..*blocks);
                (block, choose(sizes, shares, dice, *blocks - block))
            }
            Order::Mapped { permutation, covered: None } => (permutation.next(dice), 0),
            Order::Mapped { permutation, covered: Some(covered) } => loop {
                if permutation.is_over() {
                    covered.clear();
                }
                let block = permutation.next(dice);
                if covered.has(block) {
                    continue;
                }
                let most = (sizes[sizes.len() - 1] / sizes[0]).min(*blocks - block);
                let room = (1..most).find(|behind| covered.has(block + behind)).unwrap_or(most);
                let size = choose(sizes, shares, dice, room);
                let end = block + sizes[size] / sizes[0];
                (block..end).for_each(|block| covered.insert(block));
                return (block, size);
            },
        }
    }

    /// Returns the first written block to verify at or after `offset` bytes of the extent: where the search
    /// continues, and the request.
    pub(super) fn to_verify(&self, from: u64) -> Option<(u64, Transfer)> {
        let block = self.written.as_ref()?.first_from(from)?;
        let offset = self.start + block * self.sizes[0];
        Some((block + 1, Transfer { writes: false, offset, size: 0 }))
    }
}

/// Chooses one of the sizes that fit into `room` blocks of the smallest size, by their shares.
#[inline]
fn choose(sizes: &[u64], shares: &[u8], dice: &mut fastrand::Rng, room: u64) -> usize {
    if sizes.len() == 1 {
        return 0;
    }
    let fitting = sizes.partition_point(|bytes| *bytes / sizes[0] <= room);
    let number = dice.u8(..shares[fitting - 1].max(1));
    shares[..fitting].partition_point(|share| *share <= number).min(fitting - 1)
}

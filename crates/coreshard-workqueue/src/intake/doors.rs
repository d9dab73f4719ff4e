//! A pool's doors: one queue of segments for each CPU of the pod, and a board that says at which
//! doors to look, and whom to wake. `README.md` beside this file tells the protocol.

use std::sync::atomic::Ordering::{AcqRel, Acquire, SeqCst};

use coreshard_platform::{AtomicInt, Padded, Platform, fields};
use coreshard_topology::NodeId;

use super::segments::{Claim, Segment, SegmentQueue, Taker, Watch};

/// Doors of a pool at most. Pods with more CPUs share doors.
pub(crate) const MAX_DOORS: usize = 32;

const DOORS: u64 = (1 << MAX_DOORS) - 1;

/// How many doors a worker watches before it sleeps.
const MAX_WATCHED: usize = 4;

/// Doors that are watched, and where.
pub(crate) type Watches<P, T, const LEN: usize> = [Option<(usize, Watch<P, T, LEN>)>; MAX_WATCHED];

/// The board:
///
/// | bits | meaning | set by | cleared by |
/// |---|---|---|---|
/// | 0–31 | this door is open: there may be items, look there | the producer that rang its bell | the taker, before it arms the bell |
/// | 32–63 | the sentinel: one more than the index of the worker to wake; 0 for none | the taker, when no door is open | the producer that rings first; the taker |
pub(crate) struct Doors<P: Platform, T, const LEN: usize> {
    board: Padded<P::AtomicU64>,
    queues: Box<[SegmentQueue<P, T, LEN>]>,
}
fields!(Doors<P: Platform, T; const LEN: usize> { board, queues });

/// The right to take, at all doors. There is one, kept under the pool's lock.
pub(crate) struct Takers<P: Platform, T, const LEN: usize> {
    takers: Vec<Taker<P, T, LEN>>,
    /// The door to try first, so that each has its turn.
    turn: usize,
    /// How often in a row a worker was served at its own door.
    home_claims: u32,
}

/// Claims in a row that a worker may make at its own CPU's door, where the items are in its
/// cache, while others have open doors too.
const MAX_HOME_CLAIMS: u32 = 16;

fn sentinel_of(board: u64) -> Option<usize> {
    (board >> MAX_DOORS).checked_sub(1).map(|worker| worker as usize)
}

fn open_doors(board: u64) -> impl Iterator<Item = usize> {
    let mut left = board & DOORS;
    std::iter::from_fn(move || {
        let door = left.trailing_zeros() as usize;
        (left != 0).then(|| {
            left &= left - 1;
            door
        })
    })
}

impl<P: Platform, T, const LEN: usize> Doors<P, T, LEN> {
    /// `doors` empty queues with their memory on `node`, and the right to take from them.
    pub(crate) fn new(node: Option<NodeId>, doors: usize) -> (Self, Takers<P, T, LEN>) {
        let doors = doors.clamp(1, MAX_DOORS);
        let (queues, takers) = (0..doors as u32)
            .map(|door| SegmentQueue::new(node, door))
            .unzip::<_, _, Vec<_>, Vec<_>>();
        // Open until a worker has armed their bells.
        let board = (1 << doors) - 1;
        let doors = Self { board: Padded::new(P::AtomicU64::new(board)), queues: queues.into() };
        (doors, Takers { takers, turn: 0, home_claims: 0 })
    }

    /// Names the fields of what is here, where it has come to its final place.
    pub(crate) fn describe(&self) {
        P::describe(&raw const *self);
        self.queues.iter().for_each(SegmentQueue::describe);
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Adds an item at a door. Returns the worker that the caller must wake.
    #[inline]
    pub(crate) fn push(&self, door: usize, value: T, tag: u16) -> Option<usize> {
        if self.queues[door].push(value, tag) { self.ring(door) } else { None }
    }

    /// The bell rang: opens the door, and takes the sentinel off the board if one is there.
    /// Whoever opens another door at the same time finds none, and wakes nobody: the one that is
    /// on its way will look at all open doors.
    #[cold]
    fn ring(&self, door: usize) -> Option<usize> {
        let mut seen = self.board.load(Acquire);
        loop {
            let opened = (seen | 1 << door) & DOORS;
            // Release: who finds the door open finds the item. Acquire pairs with `post`.
            match self.board.compare_exchange(seen, opened, AcqRel, Acquire) {
                Ok(_) => return sentinel_of(seen),
                Err(now) => seen = now,
            }
        }
    }

    /// Claims up to `most` items at one open door: at `home`, the door of the caller's CPU, if
    /// there are any and it is not served out of turn for too long; else in turn.
    pub(crate) fn claim(
        &self,
        takers: &mut Takers<P, T, LEN>,
        most: usize,
        home: usize,
    ) -> Option<Claim<P, T, LEN>> {
        let open = self.board.load(Acquire) & DOORS;
        let (at_home, away) = (open & 1 << home, open & !(1 << home));
        if at_home != 0 && takers.home_claims < MAX_HOME_CLAIMS {
            let claim = self.queues[home].claim(&mut takers.takers[home], most);
            if claim.is_some() {
                takers.home_claims += u32::from(away != 0);
                return claim;
            }
        }
        takers.home_claims = 0;
        let late = away & (u64::MAX << takers.turn);
        for door in open_doors(late).chain(open_doors(away & !late)).chain(open_doors(at_home)) {
            let claim = self.queues[door].claim(&mut takers.takers[door], most);
            if claim.is_some() {
                takers.turn = (door + 1) % self.queues.len();
                return claim;
            }
        }
        None
    }

    /// True if an item stands ready at an open door.
    pub(crate) fn ready(&self, takers: &mut Takers<P, T, LEN>) -> bool {
        open_doors(self.board.load(Acquire))
            .any(|door| self.queues[door].ready(&mut takers.takers[door]))
    }

    /// Closes all doors, arms their bells, and posts `worker` as the sentinel: the producer of
    /// the next item will wake it. Returns the sentinel that it replaces, if any.
    ///
    /// # Errors
    /// Where an item is there, or comes meanwhile; then nothing is posted.
    pub(crate) fn post(
        &self,
        takers: &mut Takers<P, T, LEN>,
        worker: usize,
    ) -> Result<Option<usize>, ItemWaits> {
        let mut seen = self.board.load(Acquire);
        loop {
            for door in open_doors(seen) {
                // Cleared first: once the bell is armed, the bit is its ringer's to set.
                self.board.fetch_and(!(1 << door), AcqRel);
                if !self.queues[door].arm(&mut takers.takers[door]) {
                    self.board.fetch_or(1 << door, AcqRel);
                    return Err(ItemWaits);
                }
            }
            // From a board without open doors only: a bell that rang since has opened one.
            // Release pairs with the Acquire of `ring`; SeqCst: see `sentinel`.
            let closed = seen & !DOORS;
            let posted = (worker as u64 + 1) << MAX_DOORS;
            match self.board.compare_exchange(closed, posted, SeqCst, Acquire) {
                Ok(before) => return Ok(sentinel_of(before)),
                Err(now) => seen = now,
            }
        }
    }

    /// The sentinel, if it is not being woken. SeqCst pairs with that of `post`: a worker that
    /// posts itself, and then looks for forked jobs and sees none, is seen here by whoever shares
    /// one later.
    pub(crate) fn sentinel(&self) -> Option<usize> {
        sentinel_of(self.board.load(SeqCst))
    }

    /// Takes the sentinel off the board, for the caller to wake. `None` if somebody was quicker,
    /// and wakes it.
    pub(crate) fn recall(&self) -> Option<usize> {
        sentinel_of(self.board.fetch_and(DOORS, AcqRel))
    }

    /// The places where the next items will be seen, at the open doors but `home`: whoever would
    /// fill that one cannot run while somebody watches on its CPU.
    pub(crate) fn watch(&self, takers: &mut Takers<P, T, LEN>, home: usize) -> Watches<P, T, LEN> {
        let open = self.board.load(Acquire) & DOORS;
        let mut doors = open_doors(open & !(1 << home));
        std::array::from_fn(|_| {
            let door = doors.next()?;
            Some((door, self.queues[door].watch(&mut takers.takers[door])?))
        })
    }

    /// True once an item that is watched for is there, or was there and is gone.
    pub(crate) fn seen(&self, places: &Watches<P, T, LEN>) -> bool {
        places.iter().flatten().any(|(door, place)| self.queues[*door].seen(place))
    }

    /// A counter at a door, on the line that its producers fetch anyway; `None` beyond the last.
    #[inline]
    pub(crate) fn counter(&self, door: usize, at: usize) -> Option<&P::AtomicU64> {
        self.queues[door].counter(at)
    }

    /// Tells that items of a segment were copied out, see [`SegmentQueue::release`].
    ///
    /// # Safety
    /// As there.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn release(&self, segment: *mut Segment<P, T, LEN>, items: u32) {
        // SAFETY: by this function's contract the segment is one of these queues', and mapped.
        let door = unsafe { (*segment).door() };
        // SAFETY: by this function's contract.
        unsafe { self.queues[door].release(segment, items) };
    }

    /// Items that were ever pushed.
    pub(crate) fn pushed(&self) -> u64 {
        self.queues.iter().map(SegmentQueue::pushed).sum()
    }

    /// Memory that the queues hold, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.queues.iter().map(SegmentQueue::held_bytes).sum()
    }

    /// Gives memory back that a burst needed and nobody has needed since.
    pub(crate) fn trim(&self) {
        self.queues.iter().for_each(SegmentQueue::trim);
    }
}

/// Why no sentinel was posted: an item waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ItemWaits;

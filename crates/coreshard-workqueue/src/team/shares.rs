//! Loops whose members begin with the same share each time.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Padded, Platform};

/// Pieces of each share. Another member takes the last one.
const PIECES: u32 = 16;

/// The shares of a loop, one for each member. Other members help with what is left of a share.
pub(super) struct Shares<P: Platform> {
    range: Range<usize>,
    /// The first piece that is left, and in the upper half the end of those that are left. Relaxed: the sender of a broadcast
    /// orders what the pieces do.
    left: Box<[Padded<P::AtomicU64>]>,
    /// A bit for each share that has pieces left: who helps reads few lines of shares in which nothing is left.
    open: Box<[Padded<P::AtomicU64>]>,
}

impl<P: Platform> Shares<P> {
    pub(super) fn new(range: Range<usize>, members: usize) -> Self {
        let word = |value| Padded::new(P::AtomicU64::new(value));
        let all = |_| word(u64::from(PIECES) << 32);
        // Bits beyond the last member stay 0.
        let bits = |first: usize| word(u64::MAX >> (64 - (members - first).min(64)));
        let open = (0..members).step_by(64).map(bits).collect();
        Self { range, left: (0..members).map(all).collect(), open }
    }

    /// Runs this member's share from its start, and then the ends of others.
    pub(super) fn run(&self, member: usize, body: &impl Fn(Range<usize>)) {
        while let Some(piece) = self.take(member, |first, end| (first, first + 1, end)) {
            self.run_piece(member, piece, body);
        }
        let words = self.open.len();
        for word in (0..words).map(|after| (member / 64 + after) % words) {
            let bits = self.open[word].load(Relaxed);
            // Members begin at different shares.
            let shares = (0..64).map(|after| (member + after) % 64);
            for share in shares.filter(|share| bits >> share & 1 == 1) {
                let other = word * 64 + share;
                while let Some(piece) = self.take(other, |first, end| (end - 1, first, end - 1)) {
                    self.run_piece(other, piece, body);
                }
            }
        }
    }

    /// Takes one piece of a share. `choose` returns it, and the bounds of what it leaves.
    fn take(&self, share: usize, choose: impl Fn(u32, u32) -> (u32, u32, u32)) -> Option<u32> {
        let mut word = self.left[share].load(Relaxed);
        loop {
            let (first, end) = (word as u32, (word >> 32) as u32);
            let (piece, first, end) = (first < end).then(|| choose(first, end))?;
            let left = u64::from(end) << 32 | u64::from(first);
            match self.left[share].compare_exchange(word, left, Relaxed, Relaxed) {
                Ok(_) => {
                    if first == end {
                        self.open[share / 64].fetch_and(!(1 << (share % 64)), Relaxed);
                    }
                    return Some(piece);
                }
                Err(now) => word = now,
            }
        }
    }

    fn run_piece(&self, share: usize, piece: u32, body: &impl Fn(Range<usize>)) {
        let pieces = self.left.len() as u128 * u128::from(PIECES);
        let place = share as u128 * u128::from(PIECES) + u128::from(piece);
        let len = self.range.len() as u128;
        // At most the length: it fits.
        let before = |place: u128| self.range.start + (len * place / pieces) as usize;
        let elements = before(place)..before(place + 1);
        if !elements.is_empty() {
            body(elements);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;

    use coreshard_platform::Host;

    use super::*;

    /// The elements that members running one after the other are given, by member.
    fn given(range: Range<usize>, order: &[usize], members: usize) -> Vec<Vec<usize>> {
        let shares = Shares::<Host>::new(range, members);
        let run = |member: &usize| {
            let elements = Mutex::new(Vec::new());
            shares.run(*member, &|piece| elements.lock().unwrap().extend(piece));
            elements.into_inner().unwrap()
        };
        order.iter().map(run).collect()
    }

    #[test]
    fn who_comes_first_does_all_in_the_order_of_shares() {
        for (range, members) in [(5..5, 3), (0..1, 2), (3..1_000, 70), (0..4_096, 192), (0..7, 512)]
        {
            let all = given(range.clone(), &[members / 2, 0], members);
            assert_eq!(all[1], [], "nothing was left");
            let mut elements = all[0].clone();
            elements.sort_unstable();
            assert_eq!(elements, range.collect::<Vec<_>>(), "{members}: each element once");
        }
    }

    #[test]
    fn members_begin_with_their_own_share_and_help_at_its_end() {
        let shares = Shares::<Host>::new(0..64, 2);
        let order = Mutex::new(Vec::new());
        // Member 0 has done half of its share when member 1 takes all that is left.
        for _ in 0..PIECES / 2 {
            let piece = shares.take(0, |first, end| (first, first + 1, end)).unwrap();
            shares.run_piece(0, piece, &|elements| order.lock().unwrap().push(elements.start));
        }
        shares.run(1, &|elements| order.lock().unwrap().push(elements.start));
        let own = (0..8).map(|at| 2 * at).chain((0..16).map(|at| 32 + 2 * at));
        let expected: Vec<_> = own.chain((8..16).rev().map(|at| 2 * at)).collect();
        assert_eq!(order.into_inner().unwrap(), expected);
        assert!(shares.take(0, |first, end| (first, first + 1, end)).is_none());
    }
}

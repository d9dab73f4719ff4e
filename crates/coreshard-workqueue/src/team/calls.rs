//! Wakes the sleeping members that were sent parts of a broadcast: the sender begins, and each woken member helps.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use coreshard_platform::{AtomicInt, Padded, Platform};

use crate::pool::{CurrentWorker, Pool, call_member};

/// The members that are to be woken. So a broadcast reaches P members in about log2(P) wake-ups.
pub(super) struct Calls<P: Platform> {
    sleepers: Box<[P::AtomicU32]>,
    /// How many there are; 0 until all are known.
    count: P::AtomicU32,
    /// How many were taken.
    taken: Padded<P::AtomicU32>,
}

impl<P: Platform> Calls<P> {
    /// Room for this many members.
    pub(super) fn new(members: usize) -> Self {
        Self {
            sleepers: (0..members).map(|_| P::AtomicU32::new(0)).collect(),
            count: P::AtomicU32::new(0),
            taken: Padded::new(P::AtomicU32::new(0)),
        }
    }

    /// Wakes these members of the pool's team, of which there is room for all, and returns when all have been taken.
    pub(super) fn make(&self, pool: &Pool<P>, sleepers: impl Iterator<Item = usize>) {
        self.publish(sleepers);
        self.help(|member| call_member(pool, member));
    }

    /// On a member, before its part. One that comes before all sleepers are known goes on: the sender wakes what is left.
    pub(super) fn help_here(&self) {
        if let Some(worker) = CurrentWorker::<P>::here() {
            self.help(|member| call_member(worker.pool(), member));
        }
    }

    fn publish(&self, sleepers: impl Iterator<Item = usize>) {
        let mut count = 0;
        for (place, sleeper) in self.sleepers.iter().zip(sleepers) {
            place.store(sleeper as u32, Relaxed);
            count += 1;
        }
        // Release pairs with the Acquire in `help`: who sees the count sees the members.
        self.count.store(count, Release);
    }

    fn help(&self, call: impl Fn(usize)) {
        let count = self.count.load(Acquire);
        while self.taken.load(Relaxed) < count {
            let next = self.taken.fetch_add(1, Relaxed);
            if next < count {
                call(self.sleepers[next as usize].load(Relaxed) as usize);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;

    use coreshard_platform::Loom;

    use super::*;

    /// The sender and two members; each sleeper is woken once. Fails if `publish` stores the count Relaxed: a member may then
    /// wake member 0 twice.
    #[test]
    fn loom_each_sleeper_is_called_once() {
        Loom::check(2, || {
            let calls = Arc::new(Calls::<Loom>::new(3));
            let made: Arc<[_; 3]> =
                Arc::new(std::array::from_fn(|_| loom::sync::atomic::AtomicU32::new(0)));
            let help = |calls: &Calls<Loom>, made: &[loom::sync::atomic::AtomicU32; 3]| {
                calls.help(|member| _ = made[member].fetch_add(1, Relaxed));
            };
            let members: Vec<_> = (0..2)
                .map(|_| {
                    let (calls, made) = (Arc::clone(&calls), Arc::clone(&made));
                    loom::thread::spawn(move || help(&calls, &made))
                })
                .collect();
            calls.publish([1, 2].into_iter());
            help(&calls, &made);
            members.into_iter().for_each(|member| member.join().unwrap());
            let made: Vec<u32> = made.iter().map(|made| made.load(Relaxed)).collect();
            assert_eq!(made, [0, 1, 1]);
        });
    }
}

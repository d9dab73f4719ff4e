//! How long to spin before sleeping.

use std::time::Duration;

use crate::Platform;

/// Checks between two yields, some 5 to 10 µs.
const LOOKS_TO_A_YIELD: u32 = 256;

/// The least and the greatest number of checks in a spin. A successful spin saves two system calls and a
/// context switch, and doubles the next one. A failed spin halves it, so that a thread with long waits spends
/// almost nothing on spinning.
const MIN_LOOKS: u16 = 16;
const MAX_LOOKS: u16 = 2048;

/// The number of checks in the first spin.
const FIRST_LOOKS: u16 = 64;

/// A sleep shorter than this should have been a spin. It is about as long as the longest spin, and as the
/// cost of sleeping and being woken in a virtual machine.
const SHORT_SLEEP: Duration = Duration::from_micros(50);

/// At most 2⁸ short sleeps lie between two trials.
const MAX_DOUBLINGS: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchPhase {
    /// A spin as long as has paid off so far.
    Watch,
    /// The longest spin, since a sleep was short.
    Trial,
    /// A sleep, after a failed trial.
    Sleep,
}

/// The number of checks to make before sleeping, learned from the successes and failures of earlier spins.
///
/// A failed spin makes the next one shorter. That alone is not enough: if each event must first wake a
/// sleeping thread, it comes later than a short spin, and two threads that wait for each other would sleep
/// between any two events forever. So after a short sleep, the longest spin is tried.
///
/// If the thread that causes the event needs the CPU on which this thread spins, the event comes only after a
/// sleep, and soon then: the longer the spin, the later. So if a trial fails and a short sleep follows, the
/// number of short sleeps before the next trial doubles. Without this, two states sustained themselves: 2,000
/// loops of 5 µs from an outside thread took 10 ms or 90 ms, depending on the members' CPUs (2026-11).
///
/// ```
/// use std::time::Duration;
/// use coreshard_platform::WatchLength;
///
/// let mut length = WatchLength::NEW;
/// let first = length.looks();
/// // The spin succeeded: the next one may be longer.
/// length.watched(true);
/// assert!(length.looks() > first);
/// // The spin failed, and a sleep of a few microseconds followed. A longer spin might have succeeded, and is tried once.
/// length.watched(false);
/// length.slept(Duration::from_micros(10));
/// assert!(length.looks() > 2 * first);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLength {
    looks: u16,
    next: WatchPhase,
    /// The base-2 logarithm of the short sleeps between two trials.
    doublings: u8,
    /// Short sleeps left before the next trial.
    left: u8,
}

impl WatchLength {
    /// The state before the first spin.
    pub const NEW: Self =
        Self { looks: FIRST_LOOKS, next: WatchPhase::Watch, doublings: 0, left: 0 };

    /// Returns the number of checks in the next spin.
    pub fn looks(self) -> u32 {
        self.looks.into()
    }

    /// Spins until `done` returns true, which must depend only on the words that it reads. Returns false after the last failed
    /// check.
    ///
    /// A long spin yields the CPU now and then: the thread that causes the event may need it. (On 2 CPUs, a loop of 100,000
    /// elements takes 1.3 times as long if thieves do not yield; and four threads that wait for items of their own get half
    /// as many if they do not, the slowest hundredth after 35 µs instead of 6. 2026-11)
    pub fn watch<P: Platform>(self, mut done: impl FnMut() -> bool) -> bool {
        let mut left = self.looks();
        loop {
            let round = left.min(LOOKS_TO_A_YIELD);
            if P::watch(round, &mut done) {
                return true;
            }
            left -= round;
            if left == 0 {
                return false;
            }
            P::yield_now();
        }
    }

    /// Records a spin, and whether it succeeded.
    pub fn watched(&mut self, seen: bool) {
        let was_trial = std::mem::replace(&mut self.next, WatchPhase::Watch) == WatchPhase::Trial;
        if seen {
            self.looks = (self.looks * 2).min(MAX_LOOKS);
            self.doublings = self.doublings.saturating_sub(was_trial.into());
        } else if was_trial {
            self.looks = MIN_LOOKS;
            self.next = WatchPhase::Sleep;
        } else {
            self.looks = (self.looks / 2).max(MIN_LOOKS);
        }
    }

    /// Records the duration of a sleep that followed a failed spin.
    pub fn slept(&mut self, took: Duration) {
        let was_refuted = std::mem::replace(&mut self.next, WatchPhase::Watch) == WatchPhase::Sleep;
        if took >= SHORT_SLEEP {
            return;
        }
        if was_refuted {
            self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
            self.left = u8::MAX >> (MAX_DOUBLINGS - self.doublings);
        } else if self.left > 0 {
            self.left -= 1;
        } else {
            (self.looks, self.next) = (MAX_LOOKS, WatchPhase::Trial);
        }
    }

    /// Packs the state into a word, for threads that share it.
    pub fn to_bits(self) -> u32 {
        let [low, high] = self.looks.to_le_bytes();
        u32::from_le_bytes([low, high | (self.next as u8) << 6, self.doublings, self.left])
    }

    /// Unpacks the result of [`to_bits`](Self::to_bits).
    pub fn of_bits(bits: u32) -> Self {
        let [low, high, doublings, left] = bits.to_le_bytes();
        let next = match high >> 6 {
            0 => WatchPhase::Watch,
            1 => WatchPhase::Trial,
            _ => WatchPhase::Sleep,
        };
        Self { looks: u16::from_le_bytes([low, high & 0x3f]), next, doublings, left }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(10);

    /// Simulates `times` waits whose event comes after `comes_after` checks, or after a sleep if the spin is shorter.
    /// Returns the numbers of checks and sleeps.
    fn waits(
        length: &mut WatchLength,
        times: u32,
        comes_after: u32,
        sleep: Duration,
    ) -> (u32, u32) {
        let (mut looks, mut sleeps) = (0, 0);
        for _ in 0..times {
            let seen = length.looks() >= comes_after;
            looks += if seen { comes_after } else { length.looks() };
            length.watched(seen);
            if !seen {
                sleeps += 1;
                length.slept(sleep);
            }
        }
        (looks, sleeps)
    }

    #[test]
    fn what_comes_while_one_watches_is_not_slept_for() {
        let mut length = WatchLength::NEW;
        let (_, sleeps) = waits(&mut length, 1_000, 1_000, SHORT);
        assert_eq!(sleeps, 1, "the first spin is too short");
    }

    #[test]
    fn what_comes_after_a_sleep_alone_is_hardly_watched_for() {
        let mut length = WatchLength::NEW;
        waits(&mut length, 1_000, u32::MAX, SHORT);
        let (looks, sleeps) = waits(&mut length, 1_000, u32::MAX, SHORT);
        assert_eq!(sleeps, 1_000);
        assert!(looks < 1_000 * 32, "{looks}");
    }

    #[test]
    fn it_comes_to_the_same_whatever_was_before() {
        for (before, after) in [(u32::MAX, 500), (500, u32::MAX), (500, 500), (u32::MAX, u32::MAX)]
        {
            let mut length = WatchLength::NEW;
            waits(&mut length, 10_000, before, SHORT);
            waits(&mut length, 1_000, after, SHORT);
            let (_, sleeps) = waits(&mut length, 1_000, after, SHORT);
            assert_eq!(sleeps, if after == 500 { 0 } else { 1_000 }, "{before}, then {after}");
        }
    }

    #[test]
    fn nobody_tries_again_because_of_long_sleeps() {
        let mut length = WatchLength::NEW;
        let (looks, _) = waits(&mut length, 1_000, u32::MAX, SHORT_SLEEP);
        assert_eq!(looks, 64 + 32 + 998 * 16);
    }

    #[test]
    fn it_is_the_same_from_a_word() {
        let mut length = WatchLength::NEW;
        for wait in 0..2_000 {
            assert_eq!(WatchLength::of_bits(length.to_bits()), length);
            length.watched(wait % 7 == 0);
            assert_eq!(WatchLength::of_bits(length.to_bits()), length);
            length.slept(if wait % 3 == 0 { SHORT_SLEEP } else { SHORT });
        }
    }
}

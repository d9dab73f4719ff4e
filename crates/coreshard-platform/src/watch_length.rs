//! How long to watch for what is waited for, before one sleeps.

use std::time::Duration;

/// Looks of a watch, at least and at most. A look that succeeds saves two system calls and a context switch, and doubles the
/// next watch; a watch that fails halves it, so that who waits long spends next to nothing.
const MIN_LOOKS: u16 = 16;
const MAX_LOOKS: u16 = 2048;

/// Of the first watch.
const FIRST_LOOKS: u16 = 64;

/// A sleep that is shorter than this should have been a watch: about as long as the longest watch takes,
/// and as what going to sleep and being woken cost in a virtual machine.
const SHORT_SLEEP: Duration = Duration::from_micros(50);

/// 2⁸ short sleeps are between two trials, at most.
const MAX_DOUBLINGS: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchPhase {
    /// A watch as long as has been worth it.
    Watch,
    /// The longest watch, since a sleep was short.
    Trial,
    /// A sleep, after a trial that failed.
    Sleep,
}

/// How many looks to take at what is waited for before one sleeps, learned from what watching has brought, and what it
/// might have.
///
/// Watches that fail make the next one shorter, and if each thing that is waited for wakes somebody, it comes later than
/// a short watch takes: two who wait for one another would fall asleep between any two things for ever. So after a short
/// sleep, the longest watch is tried.
///
/// But if the thread that is to bring it needs the CPU that the watch holds, it comes after a sleep alone, and then soon: the
/// longer the watch, the later. So if a trial fails, and a short sleep follows, there are twice as many short sleeps before the
/// next trial. (If each of them brought one on, there were two states that kept themselves up: 2,000 loops of 5 µs from
/// a thread outside took 10 ms, or 90 ms, as its members came to lie, 2026-11.)
///
/// ```
/// use std::time::Duration;
/// use coreshard_platform::WatchLength;
///
/// let mut length = WatchLength::NEW;
/// let first = length.looks();
/// // It has seen what it waited for: the next watch may be longer.
/// length.watched(true);
/// assert!(length.looks() > first);
/// // It has not, and slept for a few microseconds: they might have been watched through, and are, once.
/// length.watched(false);
/// length.slept(Duration::from_micros(10));
/// assert!(length.looks() > 2 * first);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLength {
    looks: u16,
    next: WatchPhase,
    /// Of the short sleeps between two trials.
    doublings: u8,
    /// Short sleeps before the next trial.
    left: u8,
}

impl WatchLength {
    /// Of who has not watched yet.
    pub const NEW: Self =
        Self { looks: FIRST_LOOKS, next: WatchPhase::Watch, doublings: 0, left: 0 };

    /// Looks of the next watch.
    pub fn looks(self) -> u32 {
        self.looks.into()
    }

    /// It watched for so long, and saw what it waits for, or not.
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

    /// After a watch in vain it slept for so long.
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

    /// In a word, for those who have it in common.
    pub fn to_bits(self) -> u32 {
        let [low, high] = self.looks.to_le_bytes();
        u32::from_le_bytes([low, high | (self.next as u8) << 6, self.doublings, self.left])
    }

    /// What [`to_bits`](Self::to_bits) gave.
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

    /// Of so many waits, what is waited for comes after so many looks, or after a sleep if there are fewer: looks and sleeps.
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
        assert_eq!(sleeps, 1, "the first watch is too short");
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

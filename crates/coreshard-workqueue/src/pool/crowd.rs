//! Whether who waits for work, or for its end, does better asleep than on the lookout.

/// A watch or a yield that takes longer than this lost the CPU to others that compute: the longest watch takes a tenth.
const LONG_NS: u64 = 500_000;

/// So many times it goes to sleep at once, after that.
const TIMES: u32 = 1024;

/// Whether others compute on the waiting thread's CPU, as far as it was taken away while the thread watched or yielded.
///
/// Then it does better asleep: Linux lets who is woken go before those who compute, but who has used its time slice, by
/// watching, comes after them, and who yields loses a whole slice. (Two threads that wait for each other's items among 20 that
/// compute on 2 CPUs: one round trip in a hundred took 8 ms or more in each run, 2026-11.)
#[derive(Debug, Default)]
pub(super) struct Crowd {
    left: u32,
}

impl Crowd {
    /// What several threads that wait outside of a pool have learned, as one word.
    pub(super) fn of_bits(bits: u32) -> Self {
        Self { left: bits }
    }

    pub(super) fn to_bits(&self) -> u32 {
        self.left
    }

    /// Asked before each watch.
    pub(super) fn is_here(&mut self) -> bool {
        let is_here = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_here
    }

    /// It waited awake for so long.
    pub(super) fn learn(&mut self, took_ns: u64) {
        if took_ns > LONG_NS {
            self.left = TIMES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Crowd, LONG_NS, TIMES};

    #[test]
    fn who_lost_the_cpu_while_it_watched_sleeps_at_once_for_a_while() {
        let mut crowd = Crowd::default();
        for took_ns in [0, LONG_NS] {
            crowd.learn(took_ns);
            assert!(!crowd.is_here());
        }
        crowd.learn(LONG_NS + 1);
        assert!((0..TIMES).all(|_| crowd.is_here()));
        assert!(!crowd.is_here(), "others may be gone by now");
    }
}

//! Chooses the recorded parts of a program's time: the requested windows, and slices of the time once the file is half
//! full.
//!
//! A recording that continued at the same rate would stop at its size limit and miss the rest of the program. Once half
//! of the limit is used, a tenth of the time is recorded. Once half of the rest is used, a hundredth is recorded, and
//! so on.

use std::time::Duration;

use coreshard_trace::Lack;

/// The length of a slice. It is long enough for several transfers of a contended lock, and short compared with a
/// program's phases.
const SLICE_MS: u64 = 10;
/// The factor by which the time between slices grows with each step.
const RARER: u64 = 10;
/// The maximum number of steps, after which there is one slice in 100 seconds.
const MOST_STEPS: u32 = 4;

/// The requested windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: Option<u64>,
    pub(crate) sample_ms: Option<(u64, u64)>,
}

impl Windows {
    /// Returns the number of the window that is open at this time, if any.
    fn at(&self, now_ms: u64) -> Option<u64> {
        if now_ms < self.from_ms || self.to_ms.is_some_and(|to| now_ms >= to) {
            return None;
        }
        let Some((open, of)) = self.sample_ms else { return Some(0) };
        let since = now_ms - self.from_ms;
        (since % of < open).then_some(since / of)
    }

    pub(crate) const fn are_parts(&self) -> bool {
        self.from_ms > 0 || self.to_ms.is_some() || self.sample_ms.is_some()
    }
}

/// Decides which window is open.
#[derive(Debug)]
pub(crate) struct Slices {
    windows: Windows,
    most_bytes: u64,
    /// The number of steps so far, and the time of the last one.
    steps: u32,
    stepped_ms: u64,
    /// The start of the first slice, and the time recorded since then.
    began_ms: Option<u64>,
    recorded: Duration,
    /// The open window and slice.
    open: Option<(u64, u64)>,
    /// The number of the last window, and the time of the last call.
    number: u32,
    looked_at: Duration,
}

impl Slices {
    pub(crate) fn new(windows: Windows, most_bytes: u64) -> Self {
        Self {
            windows,
            most_bytes,
            steps: 0,
            stepped_ms: 0,
            began_ms: None,
            recorded: Duration::ZERO,
            open: None,
            number: 0,
            looked_at: Duration::ZERO,
        }
    }

    /// Returns the number of the open window when the program has run for `now` and the file has `written_bytes`; 0 if
    /// no window is open.
    pub(crate) fn window(&mut self, now: Duration, written_bytes: u64) -> u32 {
        let now_ms = now.as_millis() as u64;
        if self.open.is_some() && self.began_ms.is_some() {
            self.recorded += now.saturating_sub(self.looked_at);
        }
        self.looked_at = now;
        let steps = steps(written_bytes, self.most_bytes);
        if steps > self.steps {
            (self.steps, self.stepped_ms) = (steps, now_ms);
            self.began_ms.get_or_insert(now_ms);
        }
        let slice = || {
            if self.steps == 0 {
                return Some(0);
            }
            // The first slice of a step comes after a pause, because the step happened in an open slice.
            let since = now_ms - self.stepped_ms;
            let period = SLICE_MS * RARER.pow(self.steps);
            (since % period >= period - SLICE_MS).then_some(since / period)
        };
        let open = self.windows.at(now_ms).zip(slice());
        if open != self.open && open.is_some() {
            self.number += 1;
        }
        self.open = open;
        if open.is_some() { self.number } else { 0 }
    }

    /// Returns the time that was skipped between slices, for a program that ran for `ran`.
    pub(crate) fn lack(&self, ran: Duration) -> Option<Lack> {
        let from_ms = self.began_ms?;
        let of_ms = (ran.as_millis() as u64).saturating_sub(from_ms);
        Some(Lack::Slices { from_ms, recorded_ms: self.recorded.as_millis() as u64, of_ms })
    }
}

/// Returns how many times half of the remaining space was used up.
fn steps(written_bytes: u64, most_bytes: u64) -> u32 {
    let left = most_bytes.saturating_sub(written_bytes).max(1);
    (most_bytes / left).max(1).ilog2().min(MOST_STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Windows = Windows { from_ms: 0, to_ms: None, sample_ms: None };

    #[test]
    fn slices_become_rarer_with_each_half_of_what_is_left() {
        let written = [0, 499, 500, 749, 750, 875, 1_000];
        assert_eq!(written.map(|bytes| steps(bytes, 1_000)), [0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(steps(16, 1), 0, "a limit below the header's size counts as reached");
    }

    #[test]
    fn after_half_of_the_limit_a_tenth_of_the_time_is_recorded() {
        let mut slices = Slices::new(ALL, 1_000);
        let ms = Duration::from_millis;
        assert_eq!(slices.window(ms(0), 0), 1);
        assert_eq!(slices.window(ms(900), 499), 1);
        assert_eq!(slices.lack(ms(900)), None);
        let mut open = Vec::new();
        for now in 1_000..1_400 {
            if slices.window(ms(now), 600) > 0 {
                open.push(now);
            }
        }
        let expected: Vec<u64> =
            (0..4).flat_map(|slice| 1_090 + slice * 100..1_100 + slice * 100).collect();
        assert_eq!(open, expected);
        assert_eq!(slices.window(ms(1_400), 600), 0);
        assert_eq!(slices.number, 5, "each slice is a separate window");
        let lack = Lack::Slices { from_ms: 1_000, recorded_ms: 40, of_ms: 400 };
        assert_eq!(slices.lack(ms(1_400)), Some(lack));
    }

    #[test]
    fn slices_lie_within_the_windows_that_were_asked_for() {
        let windows = Windows { from_ms: 100, to_ms: Some(300), sample_ms: Some((20, 100)) };
        let mut slices = Slices::new(windows, 1_000);
        let ms = Duration::from_millis;
        let numbers = [0, 100, 119, 120, 200, 219, 299, 300];
        let numbers = numbers.map(|now| slices.window(ms(now), 0));
        assert_eq!(numbers, [0, 1, 1, 0, 2, 2, 0, 0]);
    }
}

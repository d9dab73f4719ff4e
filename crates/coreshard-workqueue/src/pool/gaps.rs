//! How long a worker has been without work, and so how long it is worth watching for more before it sleeps.
//!
//! To sleep and be woken costs as much CPU time as some tens of microseconds of watching, and more time than that.
//! So where most gaps are shorter, a worker watches for that long; where most are longer, it sleeps at once. What
//! is learned is when the next work came, not what watching brought: it is the same whether the worker watched
//! or slept meanwhile. So two who wait for one another's items cannot learn from one another not to look.

/// A gap that is shorter is worth watching for: about what sleeping and being woken take.
const SHORT_NS: u64 = 50_000;

/// A worker that slept has seen its gap longer than it was, by the time that it took to wake it.
const WAKE_UP_NS: u64 = 50_000;

/// For how long a worker watches where gaps are longer: what comes at once is not slept over.
const BRIEFLY_NS: u64 = 500;

/// All gaps of late were short.
const ALL: u32 = 256;

#[derive(Debug)]
pub(super) struct Gaps {
    /// When the last work was over; `None` while there is some.
    since_ns: Option<u64>,
    slept: bool,
    /// The share of gaps that were short, of late.
    short: u32,
}

impl Gaps {
    pub(super) const fn new() -> Self {
        Self { since_ns: None, slept: false, short: ALL / 2 }
    }

    /// There is no work now. Returns until when to watch for some.
    pub(super) fn begin(&mut self, now_ns: u64) -> u64 {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        since_ns + if self.are_short() { SHORT_NS } else { BRIEFLY_NS }
    }

    /// Most are worth watching for.
    pub(super) fn are_short(&self) -> bool {
        self.short >= ALL / 2
    }

    /// The worker slept.
    pub(super) fn slept(&mut self) {
        self.slept = true;
    }

    /// There is work again.
    #[inline]
    pub(super) fn end(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.since_ns.take() {
            self.learn(now_ns.saturating_sub(since_ns));
        }
    }

    fn learn(&mut self, gap_ns: u64) {
        let wake_up_ns = if std::mem::take(&mut self.slept) { WAKE_UP_NS } else { 0 };
        let is_short = gap_ns < SHORT_NS + wake_up_ns;
        self.short = self.short - self.short / 8 + u32::from(is_short) * (ALL / 8);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A gap that begins now; returns for how long it was watched.
    fn gap(gaps: &mut Gaps, now_ns: &mut u64, ns: u64) -> u64 {
        let watches_ns = gaps.begin(*now_ns) - *now_ns;
        *now_ns += ns;
        if watches_ns < ns {
            gaps.slept();
            *now_ns += WAKE_UP_NS / 2;
        }
        gaps.end(*now_ns);
        watches_ns
    }

    #[test]
    fn what_is_learned_is_the_gap_whether_it_was_watched_or_slept() {
        let (mut gaps, mut now_ns) = (Gaps::new(), 0);
        let mut after = |ns: u64| (0..100).map(|_| gap(&mut gaps, &mut now_ns, ns)).last().unwrap();
        assert_eq!(after(1_000_000), BRIEFLY_NS);
        assert_eq!(after(10_000), SHORT_NS, "though it slept at first");
        assert_eq!(after(1_000_000), BRIEFLY_NS);
    }

    #[test]
    fn a_worker_watches_once_for_a_gap() {
        let mut gaps = Gaps::new();
        let until_ns = gaps.begin(1_000);
        assert_eq!(gaps.begin(30_000), until_ns, "what was seen was nothing for it");
        gaps.end(40_000);
        assert!(gaps.begin(50_000) > until_ns);
    }
}

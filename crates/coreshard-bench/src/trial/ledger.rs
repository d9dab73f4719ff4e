//! The fate of each item, recorded apart from the code under test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use coreshard_topology::{CpuId, CpuSet};

use super::promise::{Broken, Promise};

#[derive(Debug, Default)]
struct LedgerEntry {
    promise: Promise,
    cpu: AtomicU32,
}

/// An item that is queued repeatedly.
#[derive(Debug, Default)]
struct Reusable {
    runs_now: AtomicU32,
    runs: AtomicU64,
    accepted: AtomicU64,
    cancelled: AtomicU64,
    /// Counts the calls that queue it.
    turns: AtomicU64,
    /// The latest turn that was answered, whether it was pending or not.
    answered: AtomicU64,
    /// The latest turn that a run has seen.
    seen: AtomicU64,
}

/// Records what was promised for each item, and whether it was kept.
#[derive(Debug)]
pub struct Ledger {
    /// Items, followed by the items that they queue.
    entries: Box<[LedgerEntry]>,
    reusable: Box<[Reusable]>,
    allowed: HashMap<CpuId, CpuSet>,
    max_active: Option<usize>,
    bound_ns: u64,
    running: AtomicUsize,
    broken: Broken,
}

impl Ledger {
    pub(super) fn new(
        items: usize,
        reusable: usize,
        allowed: HashMap<CpuId, CpuSet>,
        max_active: Option<usize>,
        bound: Duration,
    ) -> Self {
        Self {
            entries: (0..2 * items).map(|_| LedgerEntry::default()).collect(),
            reusable: (0..reusable).map(|_| Reusable::default()).collect(),
            allowed,
            max_active,
            bound_ns: u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX),
            running: AtomicUsize::new(0),
            broken: Broken::default(),
        }
    }

    pub(super) fn child_of(&self, item: usize) -> usize {
        item + self.entries.len() / 2
    }

    pub(super) fn offer(&self, item: usize, cpu: CpuId) {
        self.entries[item].cpu.store(cpu.0, Relaxed);
        self.entries[item].promise.offer();
    }

    pub(super) fn answer(&self, item: usize, accepted: bool) {
        self.entries[item].promise.answer(accepted);
    }

    pub(super) fn begin(&self, item: usize) {
        if !self.entries[item].promise.begin() {
            self.broken.note(|| format!("item {item} ran twice"));
        }
        self.one_more_runs();
    }

    fn one_more_runs(&self) {
        let running = self.running.fetch_add(1, SeqCst) + 1;
        if let Some(most) = self.max_active.filter(|most| running > *most) {
            self.broken
                .note(|| format!("{running} items ran at once on a queue with max_active {most}"));
        }
    }

    /// Records that a call is about to queue a reusable item. Returns the number of the call.
    pub(super) fn offer_reusable(&self, which: usize) -> u64 {
        self.reusable[which].turns.fetch_add(1, SeqCst) + 1
    }

    /// Records the result of that call: queued, already pending, or refused.
    pub(super) fn answer_reusable(&self, which: usize, turn: u64, queued: Option<bool>) {
        let entry = &self.reusable[which];
        if let Some(queued) = queued {
            entry.accepted.fetch_add(u64::from(queued), SeqCst);
            entry.answered.fetch_max(turn, SeqCst);
        }
    }

    pub(super) fn cancelled(&self, which: usize, cancelled: bool) {
        self.reusable[which].cancelled.fetch_add(u64::from(cancelled), SeqCst);
    }

    pub(super) fn begin_reusable(&self, which: usize) {
        let entry = &self.reusable[which];
        if entry.runs_now.fetch_add(1, SeqCst) > 0 {
            self.broken.note(|| format!("reusable item {which} runs on two workers at once"));
        }
        entry.seen.fetch_max(entry.turns.load(SeqCst), SeqCst);
        entry.runs.fetch_add(1, SeqCst);
        self.one_more_runs();
    }

    pub(super) fn end_reusable(&self, which: usize) {
        self.reusable[which].runs_now.fetch_sub(1, SeqCst);
        self.running.fetch_sub(1, SeqCst);
    }

    pub(super) fn expect_flushed(&self, which: usize, flushed: Result<bool, String>) {
        if let Err(error) = flushed {
            self.broken.note(|| format!("waiting for reusable item {which} failed: {error}"));
        }
    }

    pub(super) fn end(&self, item: usize) {
        self.running.fetch_sub(1, SeqCst);
        self.entries[item].promise.end();
    }

    /// Checks that each leaf of the item's forks was visited once.
    pub(super) fn expect_forked(&self, item: usize, visits: impl Iterator<Item = u32>) {
        for (leaf, visits) in visits.enumerate().filter(|(_, visits)| *visits != 1) {
            self.broken.note(|| {
                format!("item {item}: its leaf {leaf} ran {visits} times instead of once")
            });
        }
    }

    pub(super) fn expect_over(&self, item: usize, joined: bool) {
        if !joined || !self.entries[item].promise.has_ended() {
            self.broken
                .note(|| format!("the handle of item {item} was joined before the item ended"));
        }
    }

    /// Checks that each accepted item, and no other, ran exactly once.
    ///
    /// # Errors
    /// The first broken promise, as a text. Call it after the queue was drained.
    pub fn verdict(&self) -> Result<(), String> {
        self.broken.verdict()?;
        for (item, entry) in self.entries.iter().enumerate() {
            if let Some(breach) = entry.promise.breach() {
                return Err(format!("item {item} {breach}"));
            }
        }
        for (which, entry) in self.reusable.iter().enumerate() {
            let [runs, accepted, cancelled, answered, seen] =
                [&entry.runs, &entry.accepted, &entry.cancelled, &entry.answered, &entry.seen]
                    .map(|count| count.load(SeqCst));
            if runs + cancelled != accepted {
                return Err(format!(
                    "reusable item {which} was queued {accepted} times and cancelled {cancelled} \
                     times, and ran {runs} times"
                ));
            }
            if cancelled == 0 && seen < answered {
                return Err(format!(
                    "reusable item {which} was queued or pending at call {answered}, and no run \
                     saw what was written before it: the last saw call {seen}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that no item waits while a CPU that may run it is idle.
    ///
    /// To be called repeatedly during a run, with three arguments: the time, the last failed start of a
    /// thread, and the nanoseconds that each CPU has been idle (`None` if it is busy).
    ///
    /// A wait counts from the last failed start of a thread: missing threads are replaced soon after.
    ///
    /// # Errors
    /// The waiting item and the idle CPU, or another broken promise.
    pub fn scan(
        &self,
        now_ns: u64,
        last_failure_ns: Option<u64>,
        idle_ns: impl Fn(CpuId) -> Option<u64>,
    ) -> Result<(), String> {
        self.broken.verdict()?;
        // An item that waits for its turn should not run.
        if self.max_active.is_some_and(|most| self.running.load(SeqCst) >= most) {
            self.entries.iter().for_each(|entry| entry.promise.forget_wait());
            return Ok(());
        }
        for (item, entry) in self.entries.iter().enumerate() {
            let waits_ns = entry.promise.waits_ns(now_ns, last_failure_ns);
            if waits_ns <= self.bound_ns {
                continue;
            }
            let cpu = CpuId(entry.cpu.load(Relaxed));
            let rests = self.allowed.get(&cpu).into_iter().flatten().find_map(|other| {
                idle_ns(other).filter(|ns| *ns > self.bound_ns).map(|ns| (other, ns))
            });
            if let Some((other, ns)) = rests {
                return Err(format!(
                    "item {item}, queued on CPU {cpu}, has waited for {} µs, while CPU {other}, which \
                     may run it, has been idle for {} µs",
                    waits_ns / 1_000,
                    ns / 1_000
                ));
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count =
            |what: fn(&Promise) -> bool| self.entries.iter().filter(|it| what(&it.promise)).count();
        write!(
            f,
            "{} items accepted, {} begun, {} ended",
            count(Promise::is_accepted),
            count(Promise::has_begun),
            count(Promise::has_ended),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(max_active: Option<usize>) -> Ledger {
        let allowed = [(CpuId(0), "0-1".parse().unwrap())].into_iter().collect();
        Ledger::new(2, 1, allowed, max_active, Duration::from_nanos(100))
    }

    fn accept(ledger: &Ledger, item: usize) {
        ledger.offer(item, CpuId(0));
        ledger.answer(item, true);
    }

    #[test]
    fn an_item_must_run_exactly_once() {
        let kept = ledger(None);
        accept(&kept, 0);
        assert!(kept.verdict().unwrap_err().contains("item 0 was accepted"));
        kept.begin(0);
        assert!(kept.verdict().unwrap_err().contains("began 1 times and ended 0 times"));
        kept.end(0);
        assert_eq!(kept.verdict(), Ok(()));
        kept.begin(0);
        assert_eq!(kept.verdict(), Err("item 0 ran twice".to_owned()));
        let refused = ledger(None);
        refused.offer(1, CpuId(0));
        refused.answer(1, false);
        assert_eq!(refused.verdict(), Ok(()));
        refused.begin(1);
        assert!(refused.verdict().unwrap_err().contains("was not accepted, and ran 1 times"));
    }

    #[test]
    fn no_more_than_max_active_may_run() {
        let ledger = ledger(Some(1));
        accept(&ledger, 0);
        accept(&ledger, 1);
        ledger.begin(0);
        assert_eq!(ledger.scan(0, None, |_| None), Ok(()));
        ledger.begin(1);
        assert!(ledger.verdict().unwrap_err().contains("2 items ran at once"));
    }

    #[test]
    fn a_reusable_item_runs_alone_and_as_often_as_it_was_queued() {
        let kept = ledger(None);
        let turn = kept.offer_reusable(0);
        kept.answer_reusable(0, turn, Some(true));
        assert!(kept.verdict().unwrap_err().contains("queued 1 times"));
        kept.begin_reusable(0);
        kept.end_reusable(0);
        assert_eq!(kept.verdict(), Ok(()));
        let turn = kept.offer_reusable(0);
        kept.answer_reusable(0, turn, Some(false));
        assert!(kept.verdict().unwrap_err().contains("no run saw"), "{:?}", kept.verdict());
        let twice = ledger(None);
        twice.begin_reusable(0);
        twice.begin_reusable(0);
        assert!(twice.verdict().unwrap_err().contains("two workers at once"));
    }

    #[test]
    fn nothing_may_wait_while_a_cpu_rests_that_may_run_it() {
        let all = ledger(None);
        accept(&all, 0);
        let rests = |which: u32, ns| move |cpu: CpuId| (cpu.0 == which).then_some(ns);
        assert_eq!(all.scan(1_000, None, rests(1, 5_000)), Ok(()), "seen for the first time");
        assert_eq!(all.scan(1_090, None, rests(1, 5_000)), Ok(()), "not for long");
        assert_eq!(all.scan(1_500, None, rests(1, 90)), Ok(()), "no CPU is idle for long");
        assert_eq!(all.scan(1_500, None, rests(2, 5_000)), Ok(()), "another's CPU");
        assert_eq!(all.scan(1_500, Some(1_450), rests(1, 5_000)), Ok(()), "a thread is missing");
        let broken = all.scan(1_500, None, rests(1, 5_000)).unwrap_err();
        assert!(broken.contains("item 0, queued on CPU 0") && broken.contains("CPU 1"), "{broken}");
        all.begin(0);
        assert_eq!(all.scan(1_500, None, rests(1, 5_000)), Ok(()));
    }
}

//! Models of the state word: queue, cancel, flush, requeue and disable against one another. Each was seen to fail when the step
//! that its comment names was weakened.

use std::sync::Arc;

use coreshard_platform::{AtomicInt, DataCell, Lock, Platform};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::state::{Begin, Claimed, Number, WorkState};
use crate::base::event::Event;
use coreshard_platform::Loom;

type Word = <Loom as Platform>::AtomicU32;

/// An item whose pool is a list under a lock, as seen by a worker and its callers.
struct Model {
    state: WorkState<Loom>,
    over: Event<Loom>,
    tokens: Lock<Loom, Vec<Number>>,
    /// The place that is kept until the end of the run.
    kept: Lock<Loom, Option<Number>>,
    /// The function's data: loom reports two simultaneous accesses.
    data: <Loom as Platform>::Cell<u32>,
    /// Written by a caller before it queues the item, and read by the run.
    message: Word,
    seen: Word,
    runs: Word,
    /// Runs that the first queueing's token began.
    first_runs: Word,
}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: WorkState::new(),
            over: Event::new(),
            tokens: Lock::new(Vec::new()),
            kept: Lock::new(None),
            data: DataCell::new(0),
            message: Word::new(0),
            seen: Word::new(0),
            runs: Word::new(0),
            first_runs: Word::new(0),
        })
    }

    /// As `Work::queue`.
    fn queue(&self) -> bool {
        let Ok(claimed) = self.state.claim(false) else { return false };
        self.bring(claimed);
        true
    }

    /// As `Work::modify_delay` without a delay.
    fn requeue(&self) -> bool {
        let claimed = self.state.reclaim(false).expect("it is not disabled");
        if claimed.replaced.is_some_and(|tombstone| tombstone.awaited) {
            self.over.notify();
        }
        self.bring(claimed);
        claimed.replaced.is_some()
    }

    /// As `Token::send_while_running`.
    fn bring(&self, claimed: Claimed) {
        if claimed.running {
            let mut kept = self.kept.lock();
            match *kept {
                None if !self.state.park() => {}
                Some(kept) if self.state.is_to_run(kept) => return,
                _ => {
                    *kept = Some(claimed.number);
                    return;
                }
            }
        }
        self.tokens.lock().push(claimed.number);
    }

    /// As `Work::queue` on a queue with a limit, whose turns are taken at once.
    fn queue_in_turn(&self) -> bool {
        let Ok(claimed) = self.state.claim(false) else { return false };
        self.tokens.lock().push(claimed.number);
        true
    }

    /// As `Token::run`; false if the pool was empty.
    fn work_once(&self) -> bool {
        let Some(number) = self.tokens.lock().pop() else { return false };
        loop {
            match self.state.begin(number) {
                Begin::Run => break,
                Begin::Tombstone => return true,
                Begin::Busy => {
                    let _ = self.over.wait_until(None, || self.state.await_turn(number));
                }
            }
        }
        self.first_runs.fetch_add(u32::from(number == 1), Relaxed);
        self.run();
        true
    }

    #[allow(unsafe_code)]
    fn run(&self) {
        // SAFETY: shown by the model: no other thread accesses it.
        self.data.with_mut(|data| unsafe { *data += 1 });
        self.seen.store(self.message.load(Relaxed), Relaxed);
        self.runs.fetch_add(1, Relaxed);
        let ended = self.state.end();
        if ended.parked {
            let kept = self.kept.lock().take().expect("a place is kept before it is told");
            self.tokens.lock().push(kept);
        }
        if ended.awaited {
            self.over.notify();
        }
    }

    fn work_until_idle(&self) {
        while self.work_once() {}
    }

    fn cancel(&self) -> bool {
        let tombstone = self.state.cancel(None);
        if tombstone.is_some_and(|tombstone| tombstone.awaited) {
            self.over.notify();
        }
        tombstone.is_some()
    }

    /// As `Work::flush`.
    fn flush(&self) {
        if let Some(number) = self.state.unfinished() {
            self.over.wait_until(None, || self.state.await_number(number));
        }
    }
}

/// Two threads that each replace a queueing while the item may run. Fails if `bring` replaces a kept queueing that is pending,
/// as a faster later one is.
#[test]
fn loom_an_item_that_is_queued_anew_by_two_threads_runs_once_for_each_queueing_that_is_not_replaced()
 {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue());
        let [worker, other] = [Arc::clone(&model), Arc::clone(&model)];
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        let other = loom::thread::spawn(move || u32::from(other.requeue()));
        let replaced = u32::from(model.requeue()) + other.join().unwrap();
        worker.join().unwrap();
        model.work_until_idle();
        assert_eq!(model.runs.load(SeqCst), 3 - replaced);
    });
}

/// Two workers, and an item that is queued again while it runs: its place is kept. Fails with `end` made Relaxed, and with
/// `PENDING` cleared by it instead of by `begin`.
#[test]
fn loom_an_item_never_runs_on_two_workers_at_once() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue());
        let worker = Arc::clone(&model);
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        let queued = model.queue();
        model.work_until_idle();
        worker.join().unwrap();
        model.work_until_idle();
        let runs = model.runs.load(SeqCst);
        assert_eq!(runs, 1 + u32::from(queued), "each queueing runs once");
        assert!(model.state.unfinished().is_none());
    });
}

/// Two workers that reach one item. Fails without the test of `RUNNING` in `begin`: loom sees two accesses to the cell at once.
#[test]
fn loom_a_worker_that_comes_upon_a_running_item_waits() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue_in_turn());
        let worker = Arc::clone(&model);
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        let queued = model.queue_in_turn();
        model.work_until_idle();
        worker.join().unwrap();
        model.work_until_idle();
        assert_eq!(model.runs.load(SeqCst), 1 + u32::from(queued));
    });
}

/// Fails if `claim` returns at once when the item is pending (its rejection must write), and with `PENDING` cleared by `end`
/// instead of `begin`.
#[test]
fn loom_the_coming_run_sees_what_was_written_before_a_refused_queueing() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue());
        let worker = Arc::clone(&model);
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        model.message.store(7, Relaxed);
        let queued = model.queue();
        worker.join().unwrap();
        model.work_until_idle();
        assert_eq!(model.seen.load(SeqCst), 7, "queued: {queued}");
    });
}

/// A cancel, a worker and a queueing. Fails without the number in `begin`'s test: the token of the cancelled queueing starts
/// the new one, which was queued elsewhere.
#[test]
fn loom_a_queueing_runs_once_or_is_cancelled() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue());
        let worker = Arc::clone(&model);
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        let cancelled = model.cancel();
        let queued = model.queue();
        model.work_until_idle();
        worker.join().unwrap();
        model.work_until_idle();
        let queueings = 1 + u32::from(queued) - u32::from(cancelled);
        assert_eq!(model.runs.load(SeqCst), queueings);
        assert_eq!(model.first_runs.load(SeqCst), u32::from(!cancelled), "it is a tombstone");
    });
}

/// A lost wake-up is a deadlock, which loom reports. Fails if `end` does not clear and report `AWAITED`, and if `await_number`
/// sets it after it has checked.
#[test]
fn loom_a_flush_ends_after_the_run_that_it_waits_for() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue());
        let worker = Arc::clone(&model);
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        model.flush();
        assert_eq!(model.runs.load(Relaxed), 1, "and the run's writes are visible");
        worker.join().unwrap();
    });
}

/// As above, for a flush whose queueing another thread cancels. Fails if `cancel` does not report `awaited`.
#[test]
fn loom_a_flush_ends_when_its_queueing_is_cancelled() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue());
        let other = Arc::clone(&model);
        let other = loom::thread::spawn(move || other.cancel());
        model.flush();
        assert!(other.join().unwrap());
        model.work_until_idle();
        assert_eq!(model.runs.load(SeqCst), 0);
    });
}

/// Disable against a worker and a queueing. Fails without the test of the depth in `claim`, and with `await_idle` always true.
#[test]
fn loom_a_disabled_item_does_not_begin() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue());
        let other = Arc::clone(&model);
        let other = loom::thread::spawn(move || {
            other.work_once();
            other.queue();
            other.work_until_idle();
        });
        model.state.disable().unwrap();
        model.over.wait_until(None, || model.state.await_idle());
        let runs = model.runs.load(Relaxed);
        assert!(!model.queue(), "disabled");
        other.join().unwrap();
        model.work_until_idle();
        assert_eq!(model.runs.load(SeqCst), runs, "none has begun since");
        assert!(model.state.enable().unwrap());
        assert!(model.queue());
        model.work_until_idle();
        assert_eq!(model.runs.load(SeqCst), runs + 1);
    });
}

/// A delay that elapses while it is cancelled or replaced: exactly one of the two takes it. Fails without the number in `fire`.
#[test]
fn loom_a_delay_is_over_or_cancelled() {
    Loom::check(3, || {
        let model = Model::new();
        let first = model.state.claim(true).unwrap().number;
        let timer = Arc::clone(&model);
        let timer = loom::thread::spawn(move || {
            let fired = timer.state.fire(first);
            if fired.is_some() {
                timer.tokens.lock().push(first);
            }
            fired.is_some()
        });
        let second = model.state.reclaim(true).unwrap();
        let replaced = second.replaced.is_some();
        let fired = timer.join().unwrap();
        assert!(replaced, "nothing has run");
        if model.state.fire(second.number).is_some() {
            model.tokens.lock().push(second.number);
        }
        model.work_until_idle();
        assert_eq!(model.runs.load(SeqCst), 1, "fired first: {fired}");
    });
}

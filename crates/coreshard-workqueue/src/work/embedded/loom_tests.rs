//! Models of items in memory that is freed: their queueings, runs, cancels and waits against one another. Each was seen to fail
//! when the step that its comment names was changed.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use coreshard_platform::{AtomicInt, DataCell, Lock, Loom, Platform};

use super::item::{EmbeddedWork, PENDING, QueueingTicket, READY};
use super::stripe::Run;
use super::token::begin;
use super::works::EmbeddedWorks;
use crate::work::way::KeptPlace;

type Word = <Loom as Platform>::AtomicU32;

unsafe extern "C-unwind" fn work(_: NonNull<EmbeddedWork>) {}

/// The content of freed memory: it must not be called.
unsafe extern "C-unwind" fn freed(_: NonNull<EmbeddedWork>) {
    unreachable!("freed memory is called")
}

/// An item whose pool is a list under a lock. It shares with the real one everything except the queue's side.
struct Model {
    works: &'static EmbeddedWorks<Loom>,
    item: UnsafeCell<EmbeddedWork>,
    tokens: Lock<Loom, Vec<QueueingTicket>>,
    /// The function's data: loom reports two simultaneous accesses.
    data: <Loom as Platform>::Cell<u32>,
    /// Written by a caller before it queues the item, and read by the run.
    message: Word,
    seen: Word,
    runs: Word,
}

// SAFETY: the item is accessed by the rules of the protocol, which the model checks.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            works: EmbeddedWorks::leak(1),
            item: UnsafeCell::new(EmbeddedWork::new(work, ptr::null())),
            tokens: Lock::new(Vec::new()),
            data: DataCell::new(0),
            message: Word::new(0),
            seen: Word::new(0),
            runs: Word::new(0),
        })
    }

    fn place(&self) -> NonNull<EmbeddedWork> {
        NonNull::new(self.item.get()).expect("a cell is not null")
    }

    /// As `EmbeddedWorks::queue`, on a queue without a limit, or on one whose turns are taken at once.
    fn queue(&self, has_limit: bool) -> bool {
        let place = self.place();
        let mut state = self.works.stripe(place).lock();
        // SAFETY: the lock is held.
        let item = unsafe { EmbeddedWork::fields(place) };
        if !item.is_free() {
            return false;
        }
        item.flags = READY | PENDING;
        item.ticket = state.draw(place, item.ticket).expect("few tickets are tombstones");
        let ticket = item.ticket;
        if let Some(run) = state.run_of(place)
            && !has_limit
        {
            let replaced =
                run.park(KeptPlace { link: NonNull::dangling(), injector: 0, number: ticket });
            replaced.into_iter().for_each(|kept| assert!(state.take_tombstone(kept.number)));
            return true;
        }
        drop(state);
        self.tokens.lock().push(ticket);
        true
    }

    /// As `EmbeddedToken::run`; false if the pool was empty.
    fn work_once(&self) -> bool {
        let Some(ticket) = self.tokens.lock().pop() else { return false };
        let stripe = self.works.stripe(self.place());
        let run = Run::new(ticket);
        let Some((function, _)) = begin(stripe, &run) else { return true };
        // SAFETY: it does nothing, or reports the error.
        unsafe { function(ticket.work()) };
        // SAFETY: shown by the model: no other thread accesses it.
        self.data.with_mut(|data| unsafe { *data += 1 });
        self.seen.store(self.message.load(Relaxed), Relaxed);
        self.runs.fetch_add(1, Relaxed);
        let (parked, afterwards) = stripe.lock().end(&run);
        if let Some(parked) = parked {
            self.tokens.lock().push(parked.number);
        }
        afterwards.see_to_it();
        true
    }

    fn work_until_idle(&self) {
        while self.work_once() {}
    }

    /// Frees the item: the program reuses its memory.
    fn free(&self) {
        // SAFETY: shown by the model: no other thread accesses it.
        unsafe { self.item.get().write(EmbeddedWork::new(freed, ptr::null())) };
    }

    /// Returns true if the reused memory was not written.
    fn is_untouched(&self) -> bool {
        // SAFETY: no other thread is left.
        let item = unsafe { EmbeddedWork::fields(self.place()) };
        ptr::fn_addr_eq(item.function, freed as super::item::EmbeddedFunction)
            && item.flags == READY
            && item.disables == 0
            && item.ticket == QueueingTicket::NONE
    }
}

/// Two workers, and an item that is queued again while it runs. Fails if `begin` clears `PENDING` in one critical section and
/// puts its run on the list in another.
#[test]
fn loom_an_embedded_item_never_runs_on_two_workers_at_once() {
    for has_limit in [false, true] {
        Loom::check(3, move || {
            let model = Model::new();
            assert!(model.queue(has_limit));
            let worker = Arc::clone(&model);
            let worker = loom::thread::spawn(move || worker.work_until_idle());
            let queued = model.queue(has_limit);
            model.work_until_idle();
            worker.join().unwrap();
            model.work_until_idle();
            assert_eq!(model.runs.load(SeqCst), 1 + u32::from(queued), "each queueing runs once");
        });
    }
}

/// A cancel that waits, after which the memory is freed while the pool still has the token. Fails if `begin` reads the item
/// before it checks whether its ticket is a tombstone, and if `make_tombstone` leaves the ticket out of the list.
#[test]
fn loom_a_cancelled_embedded_item_may_be_freed() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue(false));
        let worker = Arc::clone(&model);
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        // SAFETY: the item is alive until the call has returned.
        let cancelled = unsafe { model.works.cancel_and_wait(model.place()) }.unwrap();
        model.free();
        worker.join().unwrap();
        model.work_until_idle();
        assert_eq!(model.runs.load(SeqCst), u32::from(!cancelled));
        assert!(model.is_untouched(), "what lies there now is changed");
    });
}

/// An item that is queued, cancelled and queued again while it runs. Fails if `park` keeps the tombstone's place.
#[test]
fn loom_an_embedded_item_that_is_queued_anew_while_it_runs_is_run_once_for_each_queueing() {
    for has_limit in [false, true] {
        Loom::check(2, move || {
            let model = Model::new();
            assert!(model.queue(has_limit));
            let worker = Arc::clone(&model);
            let worker = loom::thread::spawn(move || worker.work_until_idle());
            let mut runs = 1;
            runs += u32::from(model.queue(has_limit));
            // SAFETY: the item is alive.
            runs -= u32::from(unsafe { model.works.cancel(model.place()) });
            runs += u32::from(model.queue(has_limit));
            model.work_until_idle();
            worker.join().unwrap();
            model.work_until_idle();
            assert_eq!(model.runs.load(SeqCst), runs, "each queueing runs once, or is cancelled");
        });
    }
}

/// Fails with a check of the flags before the lock is taken that rejects a pending item.
#[test]
fn loom_the_coming_run_of_an_embedded_item_sees_what_was_written_before_a_refused_queueing() {
    Loom::check(3, || {
        let model = Model::new();
        assert!(model.queue(false));
        let worker = Arc::clone(&model);
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        model.message.store(7, Relaxed);
        let queued = model.queue(false);
        worker.join().unwrap();
        model.work_until_idle();
        assert_eq!(model.seen.load(SeqCst), 7, "queued: {queued}");
    });
}

/// A lost wake-up is a deadlock, which loom reports. Fails if `tell_tombstone` leaves the waiters on their list, and if `end`
/// does not take them.
#[test]
fn loom_a_flush_of_an_embedded_item_ends_by_its_run_or_by_a_cancel() {
    Loom::check(2, || {
        let model = Model::new();
        assert!(model.queue(false));
        let [worker, canceller] = [Arc::clone(&model), Arc::clone(&model)];
        let worker = loom::thread::spawn(move || worker.work_until_idle());
        let canceller = loom::thread::spawn(move || {
            // SAFETY: the item is alive.
            unsafe { canceller.works.cancel(canceller.place()) }
        });
        // SAFETY: as above.
        unsafe { model.works.flush(model.place()) }.unwrap();
        let runs = model.runs.load(SeqCst);
        let cancelled = canceller.join().unwrap();
        assert_eq!(runs, u32::from(!cancelled), "the flushed queueing has ended");
        worker.join().unwrap();
        model.work_until_idle();
    });
}

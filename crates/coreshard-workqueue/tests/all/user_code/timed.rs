//! Reusable items, and the entries that the timekeeper fires.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use coreshard_workqueue::{MissedTick, Periodic, Work};
use futures_lite::future::block_on;

use super::rig::{Armed, Fault, Flag, Rig, TellsDrop, is_told};
use testing::{NEVER, wait_until};

/// Later than the preceding steps of a case, even on a busy machine with an emulated processor.
const SOON: Duration = Duration::from_millis(200);

pub(crate) fn work(fault: Fault) {
    let rig = Rig::new();
    let armed = fault.arm();
    let work = Work::new(move |_| armed.call());
    for _ in 0..2 {
        work.queue(&rig.queue).unwrap();
        work.flush().unwrap();
    }
    rig.queue.flush().unwrap();
    assert_eq!(is_told(|| drop(work)), !fault.is_thrown());
    rig.expect_reports(if fault.is_thrown() { 2 } else { 0 });
}

pub(crate) fn work_dropped_by_worker(fault: Fault) {
    let rig = Rig::new();
    let held = rig.hold_worker();
    let armed = fault.arm();
    let work = Work::new(move |_| armed.call());
    work.queue(&rig.queue).unwrap();
    drop(work);
    drop(held);
    rig.expect_reports(1);
}

pub(crate) fn periodic(fault: Fault) {
    let rig = Rig::new();
    let (ran, counts) = (Arc::new(std::sync::atomic::AtomicUsize::new(0)), 3);
    let tells = Arc::clone(&ran);
    let tick = move || {
        let armed = fault.arm();
        if tells.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < counts {
            armed.call();
        } else {
            armed.unload();
        }
    };
    let period = Duration::from_millis(2);
    let periodic = Periodic::start(&rig.queue, period, MissedTick::Skip, tick).unwrap();
    wait_until("it ticks again", || ran.load(std::sync::atomic::Ordering::SeqCst) > counts);
    periodic.stop_and_wait().unwrap();
    rig.expect_reports(counts);
}

/// Its queue is shut down when it becomes due, so the timekeeper drops its function.
pub(crate) fn dropped_by_timekeeper(fault: Fault) {
    let rig = Rig::new();
    let other = rig.other_queue();
    let dropped = Flag::default();
    let (armed, tells) = (fault.arm(), TellsDrop(dropped.clone()));
    let work = Work::new(move |_| {
        let _held = &tells;
        armed.call();
    });
    work.queue_after(&other, SOON).unwrap();
    drop(work);
    other.shutdown(NEVER).unwrap();
    dropped.wait();
    rig.expect_reports(usize::from(!fault.is_thrown()));
}

/// The drop of the last handle waits for the queue's items, and one of these waits for a timer.
pub(crate) fn holds_a_queue(_: Fault) {
    let rig = Rig::new();
    let (closed, held) = (rig.other_queue(), rig.other_queue());
    let (begun, go_on, over) = (Flag::default(), Flag::default(), Flag::default());
    let (tells, waits, ends) = (begun.clone(), go_on.clone(), over.clone());
    let runtime = rig.runtime.clone();
    held.queue(move || {
        tells.set();
        waits.wait();
        block_on(runtime.sleep(SOON).unwrap());
        ends.set();
    })
    .unwrap();
    begun.wait();
    let work = Work::new(move |_| drop(held.stats()));
    work.queue_after(&closed, SOON).unwrap();
    drop(work);
    closed.shutdown(NEVER).unwrap();
    wait_until("it was fired", || rig.runtime.delayed_items() == 0);
    go_on.set();
    over.wait();
    rig.expect_reports(0);
}

/// A waker of another executor.
struct Foreign {
    armed: Armed,
    woken: Flag,
    waits: Option<Flag>,
}

impl Wake for Foreign {
    fn wake(self: Arc<Self>) {
        self.woken.set();
        if let Some(waits) = &self.waits {
            waits.wait();
        }
        self.armed.call();
    }
}

pub(crate) fn foreign_waker(fault: Fault) {
    let rig = Rig::new();
    for _ in 0..3 {
        let woken = Flag::default();
        let foreign = Foreign { armed: fault.arm(), woken: woken.clone(), waits: None };
        let waker = Waker::from(Arc::new(foreign));
        let mut sleep = pin!(rig.runtime.sleep(SOON).unwrap());
        assert_eq!(sleep.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        // The handle in the sleep is dropped last, or not at all.
        std::mem::forget(waker);
        woken.wait();
    }
    rig.expect_reports(0);
}

/// Other entries with the same deadline are not delayed.
pub(crate) fn waker_that_blocks(fault: Fault) {
    let rig = Rig::new();
    let never = Flag::default();
    let runtime = &rig.runtime;
    let asked: Vec<_> = (0..6)
        .map(|at| {
            let waits = (at % 2 == 0).then(|| never.clone());
            let armed = fault.arm();
            let woken = Flag::default();
            let waker = Waker::from(Arc::new(Foreign { armed, woken: woken.clone(), waits }));
            let mut sleep = Box::pin(runtime.sleep(SOON).unwrap());
            assert_eq!(sleep.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
            std::mem::forget((waker, sleep));
            woken
        })
        .collect();
    asked.iter().for_each(Flag::wait);
    let (ran, tells) = (Flag::default(), ());
    let sets = ran.clone();
    let work = Work::new(move |_| {
        let () = tells;
        sets.set();
    });
    work.queue_after(&rig.queue, SOON).unwrap();
    ran.wait();
    drop(work);
    rig.expect_reports(0);
    never.set();
}

pub(crate) fn waker_dropped(fault: Fault) {
    let rig = Rig::new();
    let foreign = Foreign { armed: fault.arm(), woken: Flag::default(), waits: None };
    let waker = Waker::from(Arc::new(foreign));
    let mut sleep = Box::pin(rig.runtime.sleep(NEVER).unwrap());
    let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(polled, Poll::Pending);
    drop(waker);
    // During an unwinding: a destructor that panics now would abort the process.
    let told = is_told(move || {
        let _sleep = sleep;
        panic!("its owner panics");
    });
    assert!(told);
    wait_until("the timers know", || rig.runtime.delayed_items() == 0);
    rig.expect_reports(0);
}

/// The timekeeper wakes the task when no worker is left to poll it: its future is dropped.
pub(crate) fn task_of_a_queue_that_is_gone(fault: Fault) {
    let rig = Rig::new();
    let other = rig.other_queue();
    let (armed, dropped) = (fault.arm(), Flag::default());
    let tells = TellsDrop(dropped.clone());
    let sleep = rig.runtime.sleep(SOON * 5).unwrap();
    let task = other.spawn(async move {
        let _held = (&tells, &armed);
        sleep.await;
    });
    task.unwrap().detach();
    drop(other);
    dropped.wait();
    rig.expect_reports(usize::from(!fault.is_thrown()));
}

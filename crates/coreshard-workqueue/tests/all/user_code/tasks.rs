//! Futures: polled, completed, dropped, cancelled, awaited.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use coreshard_platform::Host;
use coreshard_workqueue::{Task, Workqueue};
use futures_lite::future::block_on;

use super::rig::{Armed, Fault, Flag, Rig, TellsDrop, is_told};
use testing::wait_until;

/// Completes at once, or panics.
async fn strike(armed: Armed) {
    armed.call();
}

pub(crate) fn awaited(fault: Fault) {
    let rig = Rig::new();
    let task = rig.queue.spawn(strike(fault.arm())).unwrap();
    // A future's captures are dropped within its last poll.
    assert!(is_told(|| block_on(task)));
    rig.expect_reports(0);
}

pub(crate) fn detached(fault: Fault) {
    let rig = Rig::new();
    let held = rig.hold_worker();
    rig.queue.spawn(strike(fault.arm())).unwrap().detach();
    drop(held);
    rig.expect_reports(1);
}

pub(crate) fn detached_after(fault: Fault) {
    let rig = Rig::new();
    for drop_it in [false, true] {
        let task = rig.queue.spawn(strike(fault.arm())).unwrap();
        wait_until("it ends", || task.is_finished());
        if drop_it { drop(task) } else { task.detach() }
    }
    rig.expect_reports(2);
}

/// A future that waits inside its poll until the flag is set, and then strikes.
fn in_poll(rig: &Rig, fault: Fault) -> (Task<()>, Flag) {
    let (polled, go_on) = (Flag::default(), Flag::default());
    let (tells, waits, armed) = (polled.clone(), go_on.clone(), fault.arm());
    let task = rig.queue.spawn(async move {
        tells.set();
        waits.wait();
        armed.call();
    });
    polled.wait();
    (task.unwrap(), go_on)
}

pub(crate) fn dropped_while_polled(fault: Fault) {
    let rig = Rig::new();
    let (task, go_on) = in_poll(&rig, fault);
    drop(task);
    go_on.set();
    rig.expect_reports(1);
}

pub(crate) fn detached_while_polled(fault: Fault) {
    let rig = Rig::new();
    let (task, go_on) = in_poll(&rig, fault);
    task.detach();
    go_on.set();
    rig.expect_reports(1);
}

/// A place for the waker of a future.
#[derive(Clone, Default)]
struct Left(Arc<Mutex<Option<Waker>>>);

impl Left {
    async fn wait(&self) {
        poll_fn(|context| {
            *self.0.lock().unwrap() = Some(context.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    }

    fn is_there(&self) -> bool {
        self.0.lock().unwrap().is_some()
    }

    fn take(&self) -> Waker {
        self.0.lock().unwrap().take().unwrap()
    }
}

/// A future that waits forever, and has a capture that panics as it is dropped.
fn waiting(queue: &Workqueue<Host>, fault: Fault) -> (Task<()>, Left) {
    let (left, armed) = (Left::default(), fault.arm());
    let leaves = left.clone();
    let task = queue.spawn(async move {
        let _held = &armed;
        leaves.wait().await;
    });
    wait_until("it waits", || left.is_there());
    (task.unwrap(), left)
}

pub(crate) fn cancelled(fault: Fault) {
    let rig = Rig::new();
    drop(waiting(&rig.queue, fault).0);
    let held = rig.hold_worker();
    // Never polled.
    drop(rig.queue.spawn(strike(fault.arm())).unwrap());
    drop(held);
    rig.expect_reports(if fault.is_thrown() { 0 } else { 2 });
}

pub(crate) fn cancelled_and_awaited(fault: Fault) {
    let rig = Rig::new();
    let (task, _left) = waiting(&rig.queue, fault);
    assert_eq!(block_on(task.cancel()), None);
    rig.expect_reports(usize::from(!fault.is_thrown()));
}

pub(crate) fn output_of_detached(fault: Fault) {
    let rig = Rig::new();
    let held = rig.hold_worker();
    let armed = fault.arm();
    rig.queue.spawn(async move { armed }).unwrap().detach();
    drop(held);
    rig.expect_reports(usize::from(!fault.is_thrown()));
}

/// A thread that drops a handle with an available output drops that output, and gets its panic.
pub(crate) fn output_dropped(fault: Fault) {
    let rig = Rig::new();
    for drop_it in [false, true] {
        let armed = fault.arm();
        let task = rig.queue.spawn(async move { armed }).unwrap();
        wait_until("it ends", || task.is_finished());
        let told = is_told(|| if drop_it { drop(task) } else { task.detach() });
        assert_eq!(told, !fault.is_thrown());
    }
    // During an unwinding, the panic cannot be passed on, and the process survives.
    let armed = fault.arm();
    let task = rig.queue.spawn(async move { armed }).unwrap();
    wait_until("it ends", || task.is_finished());
    let told = is_told(move || {
        let _task = task;
        panic!("its owner panics");
    });
    assert!(told);
    rig.expect_reports(0);
}

struct Awaiter(Armed);

impl Wake for Awaiter {
    fn wake(self: Arc<Self>) {
        self.0.call();
    }
}

pub(crate) fn awaiters_waker(fault: Fault) {
    let rig = Rig::new();
    let held = rig.hold_worker();
    let mut task = rig.queue.spawn(async { 7 }).unwrap();
    {
        let waker = Waker::from(Arc::new(Awaiter(fault.arm())));
        let polled = pin!(&mut task).poll(&mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Pending);
    }
    drop(held);
    wait_until("it ends", || task.is_finished());
    assert_eq!(block_on(task), 7);
    rig.expect_reports(1);
}

/// No waker is left, so the future is dropped, on a worker of its queue.
pub(crate) fn no_waker(fault: Fault) {
    let rig = Rig::new();
    let held = rig.hold_worker();
    let dropped = Flag::default();
    let (armed, tells) = (fault.arm(), TellsDrop(dropped.clone()));
    let task = rig.queue.spawn(async move {
        let _held = (&armed, &tells);
        poll_fn(|_| Poll::<()>::Pending).await;
    });
    task.unwrap().detach();
    drop(held);
    dropped.wait();
    rig.expect_reports(usize::from(!fault.is_thrown()));
}

pub(crate) fn no_waker_in_poll(fault: Fault) {
    let rig = Rig::new();
    let (polled, go_on, dropped) = (Flag::default(), Flag::default(), Flag::default());
    let (told, waits, tells) = (polled.clone(), go_on.clone(), TellsDrop(dropped.clone()));
    let armed = fault.arm();
    let task = rig.queue.spawn(async move {
        let _held = (&armed, &tells);
        poll_fn(|_| {
            told.set();
            waits.wait();
            Poll::<()>::Pending
        })
        .await;
    });
    polled.wait();
    task.unwrap().detach();
    go_on.set();
    dropped.wait();
    rig.expect_reports(usize::from(!fault.is_thrown()));
}

/// No worker is left to poll it: it is dropped when it is woken.
pub(crate) fn woken_after_the_queue(fault: Fault) {
    let rig = Rig::new();
    let other = rig.other_queue();
    let (task, left) = waiting(&other, fault);
    task.detach();
    drop(other);
    left.take().wake();
    rig.expect_reports(usize::from(!fault.is_thrown()));
}

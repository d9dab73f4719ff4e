//! Closures: queued, submitted, scoped, installed, forked; handlers and hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use coreshard_platform::Host;
use coreshard_workqueue::{Hooks, join};

use super::rig::{Fault, Rig, is_told, runtime};
use testing::{NEVER, wait_until};

pub(crate) fn queued(fault: Fault) {
    let rig = Rig::new();
    let armed = fault.arm();
    rig.queue.queue(move || armed.call()).unwrap();
    rig.expect_reports(1);
}

pub(crate) fn joined(fault: Fault) {
    let rig = Rig::new();
    let armed = fault.arm();
    let handle = rig.queue.submit(move || armed.call()).unwrap();
    // Dropping the error must also be safe.
    assert!(handle.join().is_err());
    rig.expect_reports(0);
}

pub(crate) fn handle_dropped_before(fault: Fault) {
    let rig = Rig::new();
    let held = rig.hold_worker();
    let armed = fault.arm();
    drop(rig.queue.submit(move || armed.call()).unwrap());
    drop(held);
    rig.expect_reports(1);
}

pub(crate) fn handle_dropped_after(fault: Fault) {
    let rig = Rig::new();
    let armed = fault.arm();
    let handle = rig.queue.submit(move || armed.call()).unwrap();
    wait_until("it has finished", || handle.is_finished());
    drop(handle);
    rig.expect_reports(1);
}

pub(crate) fn value_dropped_by_worker(fault: Fault) {
    let rig = Rig::new();
    let held = rig.hold_worker();
    let armed = fault.arm();
    drop(rig.queue.submit(move || armed).unwrap());
    drop(held);
    rig.expect_reports(usize::from(!fault.is_thrown()));
}

pub(crate) fn scoped(fault: Fault) {
    let rig = Rig::new();
    let told = is_told(|| {
        rig.queue.scope(|scope| {
            let armed = fault.arm();
            scope.queue(move || armed.call()).unwrap();
        });
    });
    assert!(told);
    rig.expect_reports(0);
}

/// One panic is resumed at the scope's end; the other can only be reported to the queue's handler.
pub(crate) fn scoped_twice(fault: Fault) {
    let rig = Rig::new();
    let told = is_told(|| {
        rig.queue.scope(|scope| {
            for _ in 0..2 {
                let armed = fault.arm();
                scope.queue(move || armed.call()).unwrap();
            }
        });
    });
    assert!(told);
    rig.expect_reports(1);
}

pub(crate) fn scope_body_and_item(fault: Fault) {
    let rig = Rig::new();
    let told = is_told(|| {
        let bodys = fault.arm();
        rig.queue.scope(move |scope| {
            let armed = fault.arm();
            scope.queue(move || armed.call()).unwrap();
            bodys.call();
        });
    });
    assert!(told);
    rig.expect_reports(1);
}

pub(crate) fn installed(fault: Fault) {
    let rig = Rig::new();
    let armed = fault.arm();
    assert!(is_told(|| rig.queue.install(move || armed.call()).unwrap()));
    rig.expect_reports(0);
}

pub(crate) fn join_first(fault: Fault) {
    let rig = Rig::new();
    let armed = fault.arm();
    let told = is_told(|| {
        rig.queue.install(|| join::<Host, _, _>(move || armed.call(), || ())).unwrap();
    });
    assert!(told);
    rig.expect_reports(0);
}

pub(crate) fn join_second(fault: Fault) {
    let rig = Rig::new();
    let armed = fault.arm();
    let told = is_told(|| {
        rig.queue.install(|| join::<Host, _, _>(|| (), move || armed.call())).unwrap();
    });
    assert!(told);
    rig.expect_reports(0);
}

/// If the first half panics, the second is not called but dropped, during the unwinding.
pub(crate) fn join_both(fault: Fault) {
    struct DropsLoudly;
    impl Drop for DropsLoudly {
        fn drop(&mut self) {
            panic!("a closure that is not called panics as it is dropped");
        }
    }
    let rig = Rig::new();
    let armed = fault.arm();
    let loud = DropsLoudly;
    let second = move || drop(loud);
    let told = is_told(|| {
        rig.queue.install(|| join::<Host, _, _>(move || armed.call(), second)).unwrap();
    });
    assert!(told);
    // The first panic went to the caller, the other to the handler of the queue.
    rig.expect_reports(1);
}

pub(crate) fn looped(fault: Fault) {
    let rig = Rig::new();
    let told = is_told(|| {
        let body = |_: std::ops::Range<usize>| {
            let armed = fault.arm();
            armed.call();
        };
        rig.queue.for_each_range(0..1, body).unwrap();
    });
    assert!(told);
    rig.expect_reports(0);
}

pub(crate) fn panic_handler(fault: Fault) {
    let runtime = runtime();
    let calls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&calls);
    let handler = move |payload| {
        let armed = fault.arm();
        std::mem::forget::<Box<dyn std::any::Any + Send>>(payload);
        counts.fetch_add(1, SeqCst);
        armed.call();
    };
    let queue = runtime.workqueue().panic_handler(handler).build().unwrap();
    for _ in 0..2 {
        queue.queue(|| panic!("an item's panic")).unwrap();
    }
    assert_eq!(queue.submit(|| 7).unwrap().join().unwrap(), 7);
    queue.shutdown(NEVER).unwrap();
    assert_eq!(calls.load(SeqCst), 2);
}

pub(crate) fn hooks(fault: Fault) {
    let runtime = runtime();
    let calls = Arc::new(AtomicUsize::new(0));
    let strikes = |calls: &Arc<AtomicUsize>| {
        let calls = Arc::clone(calls);
        move |_| {
            let armed = fault.arm();
            calls.fetch_add(1, SeqCst);
            armed.call();
        }
    };
    let hooks = Hooks::new().on_start(strikes(&calls)).on_stop(strikes(&calls));
    let queue = runtime.workqueue().hooks(hooks).build().unwrap();
    assert_eq!(queue.submit(|| 7).unwrap().join().unwrap(), 7);
    drop(queue);
    let calls = calls.load(SeqCst);
    assert!(calls >= 2 && calls.is_multiple_of(2), "{calls} calls");
}

//! A process that is forked from an executor's. The child gets errors and does not hang; the parent is not
//! affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::usable;
use coreshard_platform::Host;
use coreshard_rt::{CeilingMutex, Executor, InheritMutex, Periodic, Priority};
use testing::{NEVER, forked};

fn priority(priority: u8) -> Priority {
    Priority::new(priority).unwrap()
}

#[test]
fn a_forked_process_is_told_and_the_parent_goes_on() {
    testing::own_process!();
    let (machine, cpus) = usable();
    let executor = Executor::<Host>::builder(&machine).cpus(cpus).build_degraded().unwrap().0;
    let count = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&count);
    let periodic = Periodic::every(Duration::from_millis(1), priority(20));
    let periodic = executor.periodic(periodic, move |_| _ = counts.fetch_add(1, SeqCst)).unwrap();
    let (go, gone) = mpsc::channel::<()>();
    let waits = executor.spawn(priority(10), move || gone.recv().is_err()).unwrap();
    let (timer, delayed) = executor.after(NEVER, priority(10), || 3).unwrap();
    let locks =
        (InheritMutex::<Host, u32>::new(1), CeilingMutex::<Host, u32>::new(priority(30), 2));
    let cpu = executor.cpus().iter().next().unwrap();
    let parts = std::cell::Cell::new(Some((executor, periodic, waits, timer, delayed)));
    for _ in 0..3 {
        let outcome = forked(|| {
            let (executor, periodic, waits, timer, delayed) = parts.take().unwrap();
            let text = executor.spawn(priority(10), || 1).unwrap_err().to_string();
            assert!(text.contains("forked"), "{text}");
            assert!(executor.after(Duration::ZERO, priority(10), || 1).is_err());
            let task = Periodic::every(Duration::from_millis(1), priority(20));
            assert!(executor.periodic(task, |_| ()).is_err());
            assert!(executor.prepare(priority(77)).is_err() && executor.take_offline(cpu).is_err());
            assert!(executor.snapshot().is_empty() && executor.waiting() == 0);
            assert!(executor.take_incidents().is_empty());
            assert!(!timer.cancel() && !waits.is_done());
            assert!(waits.join().unwrap_err().to_string().contains("forked"));
            drop(delayed);
            periodic.stop();
            drop(executor);
            // Locks are words, and work here as well.
            assert_eq!(*locks.0.lock().unwrap(), 1);
            if let Ok(guard) = locks.1.lock() {
                assert_eq!(*guard, 2);
            }
            Ok::<(), String>(())
        });
        assert_eq!(outcome, Ok(()));
    }
    let (executor, periodic, waits, timer, delayed) = parts.take().unwrap();
    drop(go);
    assert!(waits.join().unwrap());
    assert!(timer.cancel() && delayed.join().is_err());
    let before = count.load(SeqCst);
    let started = Instant::now();
    while count.load(SeqCst) == before {
        assert!(started.elapsed() < NEVER, "the periodic task continues");
        std::thread::sleep(Duration::from_millis(1));
    }
    periodic.stop();
    assert_eq!(executor.spawn(priority(10), || 4).unwrap().join().unwrap(), 4);
}

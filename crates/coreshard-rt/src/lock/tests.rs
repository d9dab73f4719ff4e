//! The locks on this machine's threads; `tests/simulated/inversion.rs` tests priorities.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Host, Platform, RealTime};

use super::*;
use crate::level::Priority;

#[test]
fn no_increment_is_lost_and_waiters_get_in() {
    let lock = Arc::new(InheritMutex::<Host, u64>::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20_000).for_each(|_| *lock.lock().unwrap() += 1));
        }
    });
    assert_eq!(*lock.lock().unwrap(), 80_000);
}

#[test]
fn a_held_lock_is_refused_times_out_and_knows_its_holder() {
    let lock = InheritMutex::<Host, ()>::new(());
    let guard = lock.lock().unwrap();
    assert!(matches!(lock.lock(), Err(LockError::WouldDeadlock)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(lock.try_lock(), Err(LockError::Held)));
            let soon = Host::now() + Duration::from_millis(1);
            assert!(matches!(lock.lock_until(soon), Err(LockError::TimedOut)));
            assert!(Host::now() >= soon);
        });
    });
    drop(guard);
    assert!(lock.try_lock().is_ok());
}

#[test]
fn a_panic_poisons_until_that_is_cleared() {
    let mut lock = InheritMutex::<Host, u8>::new(1);
    let panicked = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let mut guard = lock.lock().unwrap();
                *guard = 2;
                panic!("on purpose");
            })
            .join()
    });
    assert!(panicked.is_err() && lock.is_poisoned());
    assert_eq!(*lock.lock().unwrap_err().into_guard().unwrap(), 2);
    assert_eq!(lock.lock().unwrap_err().to_string(), "the lock is poisoned: a holder panicked");
    assert!(lock.get_mut().is_err());
    lock.clear_poison();
    assert!(lock.try_lock().is_ok());
    assert_eq!(lock.into_inner().unwrap(), 2);
}

#[test]
fn a_ceiling_raises_or_says_why_not() {
    let low = Priority::new(5).unwrap();
    let lock = CeilingMutex::<Host, u8>::new(low, 0);
    let before = Host::policy();
    match lock.lock() {
        Ok(mut guard) => {
            *guard += 1;
            assert_eq!(Host::policy().priority(), Some(5));
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("SCHED_FIFO 5") && error.contains("RLIMIT_RTPRIO"), "{error}");
        }
    }
    assert_eq!(Host::policy(), before);
    let above = coreshard_platform::Policy::Fifo(9);
    std::thread::spawn(move || {
        if Host::set_policy(Host::this_thread(), above).is_ok() {
            let error = lock.lock().unwrap_err().to_string();
            assert!(error.contains("priority 9") && error.contains("ceiling 5"), "{error}");
            assert_eq!(Host::policy(), above);
        }
    })
    .join()
    .unwrap();
}

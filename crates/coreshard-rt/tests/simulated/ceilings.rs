//! A thread that holds ceilings runs at the highest of them, or at its own priority if that is higher. This
//! holds for any order of taking and releasing, and when its priority is changed meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use coreshard_platform::{Host, Policy, RealTime, ThreadHandle, ThreadSpec};
use coreshard_rt::{CeilingGuard, CeilingMutex, LockError, Priority};
use coreshard_sim::{Machine, Sim, Simulation};
use testing::{Lack, skip};

fn mutex<P: RealTime>(ceiling: u8) -> CeilingMutex<P, ()> {
    CeilingMutex::new(Priority::new(ceiling).unwrap(), ())
}

fn set<P: RealTime>(policy: Policy) {
    P::set_policy(P::this_thread(), policy).unwrap();
}

/// Runs `body` on the simulated machine, and on this one if it grants priorities.
fn on_both(simulated: fn(), here: fn()) {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    Simulation::new(&machine).seed(1).run(simulated).unwrap();
    let panic = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&panic);
    let body = move || *theirs.lock().unwrap() = catch_unwind(here).err();
    match Host::spawn_as(ThreadSpec::default(), Policy::Fifo(1), Box::new(body)) {
        Ok(thread) => thread.join(),
        Err(error) => return skip(Lack::Rt, error),
    }
    if let Some(panic) = panic.lock().unwrap().take() {
        std::panic::resume_unwind(panic);
    }
}

fn any_order<P: RealTime>() {
    for base in [Policy::Normal, Policy::Fifo(5)] {
        set::<P>(base);
        let locks = [10, 30, 20, 30].map(mutex::<P>);
        // All orders of release.
        for order in 0..24_usize {
            let mut held: Vec<_> =
                locks.iter().map(|lock| (lock.ceiling().get(), lock.lock().unwrap())).collect();
            let mut order = order;
            while !held.is_empty() {
                let highest = held.iter().map(|it| it.0).max().unwrap();
                assert_eq!(P::policy(), Policy::Fifo(highest));
                let next = order % held.len();
                order /= held.len();
                drop(held.remove(next));
            }
            assert_eq!(P::policy(), base);
        }
    }
}

#[test]
fn guards_may_go_in_any_order() {
    on_both(any_order::<Sim>, any_order::<Host>);
}

fn random<P: RealTime>() {
    let mut random = fastrand::Rng::with_seed(8);
    set::<P>(Policy::Fifo(4));
    let mut base = 4;
    let locks: Vec<_> = [7, 9, 20, 20, 50, 99].into_iter().map(mutex::<P>).collect();
    let mut held: Vec<(u8, CeilingGuard<'_, P, ()>)> = Vec::new();
    for _ in 0..3_000 {
        let lock = &locks[random.usize(..locks.len())];
        let ceiling = lock.ceiling().get();
        match random.u8(..20) {
            0 => {
                // Not to the current value, which is indistinguishable from no change.
                let to = random.u8(1..60);
                if P::policy() != Policy::Fifo(to) {
                    set::<P>(Policy::Fifo(to));
                    base = to;
                    continue;
                }
            }
            1..10 if !held.is_empty() => drop(held.swap_remove(random.usize(..held.len()))),
            _ => match lock.try_lock() {
                Ok(guard) => {
                    assert!(base <= ceiling);
                    held.push((ceiling, guard));
                }
                Err(LockError::AboveCeiling { priority, .. }) => {
                    assert!(priority == base && base > ceiling);
                    continue;
                }
                Err(LockError::Held) => {}
                Err(error) => panic!("{error}"),
            },
        }
        let highest = held.iter().map(|it| it.0).max().unwrap_or(0);
        assert_eq!(P::policy(), Policy::Fifo(base.max(highest)), "base {base}, {highest} held");
    }
    drop(held);
    assert_eq!(P::policy(), Policy::Fifo(base));
}

#[test]
fn any_sequence_leaves_a_thread_at_its_highest_ceiling_or_its_own() {
    on_both(random::<Sim>, random::<Host>);
}

fn changes<P: RealTime>() {
    set::<P>(Policy::Fifo(3));
    let [low, high] = [10, 20].map(mutex::<P>);
    // By itself or by another thread, which makes no difference to it.
    let (first, second) = (low.lock().unwrap(), high.lock().unwrap());
    set::<P>(Policy::Fifo(7));
    drop(first);
    assert_eq!(P::policy(), Policy::Fifo(20), "the held ceiling applies");
    drop(second);
    assert_eq!(P::policy(), Policy::Fifo(7), "the priority that was set meanwhile");
    // Demoted, as by a watchdog. It stays demoted, and returns to that priority after the next ceiling as
    // well.
    let first = low.lock().unwrap();
    set::<P>(Policy::Normal);
    drop(first);
    assert_eq!(P::policy(), Policy::Normal);
    drop(low.lock().unwrap());
    assert_eq!(P::policy(), Policy::Normal);
    // Above the ceiling, it stays there.
    let first = low.lock().unwrap();
    set::<P>(Policy::Fifo(40));
    let error = high.lock().unwrap_err();
    assert!(matches!(error, LockError::AboveCeiling { priority: 40, ceiling: 20 }), "{error}");
    assert_eq!(P::policy(), Policy::Fifo(40));
    drop(first);
    assert_eq!(P::policy(), Policy::Fifo(40));
}

#[test]
fn a_priority_that_changes_meanwhile_is_the_one_gone_back_to() {
    on_both(changes::<Sim>, changes::<Host>);
}

fn panics<P: RealTime>() {
    set::<P>(Policy::Fifo(3));
    let locks = [10, 30, 20].map(mutex::<P>);
    let kept = locks[0].lock().unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let [_second, _third] = [1, 2].map(|at: usize| locks[at].lock().unwrap());
        assert_eq!(P::policy(), Policy::Fifo(30));
        panic!("on purpose");
    }));
    assert!(panic.is_err() && locks[1].is_poisoned() && locks[2].is_poisoned());
    assert_eq!(P::policy(), Policy::Fifo(10));
    // A poisoned lock also raises its taker.
    let poisoned = locks[1].lock().unwrap_err().into_guard().unwrap();
    assert_eq!(P::policy(), Policy::Fifo(30));
    drop(kept);
    assert_eq!(P::policy(), Policy::Fifo(30));
    drop(poisoned);
    assert_eq!(P::policy(), Policy::Fifo(3));
    // A failed attempt lowers the thread again, to the ceilings that it holds.
    let kept = locks[0].lock();
    assert!(kept.is_err() || locks[0].try_lock().is_err());
    drop(kept);
    assert_eq!(P::policy(), Policy::Fifo(3));
}

#[test]
fn a_panic_gives_back_what_was_taken_since() {
    on_both(panics::<Sim>, panics::<Host>);
}

/// Taking a lower ceiling under a higher one is permitted: only the thread's own priority counts.
fn nests<P: RealTime>() {
    set::<P>(Policy::Fifo(5));
    let [low, high] = [10, 50].map(mutex::<P>);
    let outer = high.lock().unwrap();
    let inner = low.lock().unwrap();
    assert_eq!(P::policy(), Policy::Fifo(50));
    assert!(matches!(low.try_lock(), Err(LockError::Held)));
    assert_eq!(P::policy(), Policy::Fifo(50));
    drop(outer);
    assert_eq!(P::policy(), Policy::Fifo(10));
    drop(inner);
    assert_eq!(P::policy(), Policy::Fifo(5));
}

#[test]
fn a_lower_ceiling_may_be_taken_below_a_higher_one() {
    on_both(nests::<Sim>, nests::<Host>);
}

/// A ceiling is temporary: threads created later begin with the original priority.
#[test]
fn a_ceiling_leaves_nothing_behind_for_later_threads() {
    let begins_with = || std::thread::spawn(Host::policy).join().unwrap();
    let thread = std::thread::spawn(move || {
        Host::set_own_policy(Policy::Fifo(5)).map_err(|error| error.to_string())?;
        assert_eq!(begins_with(), Policy::Fifo(5), "new threads have its priority");
        let lock = mutex::<Host>(30);
        drop(lock.lock().unwrap());
        assert_eq!(Host::policy(), Policy::Fifo(5));
        assert_eq!(begins_with(), Policy::Fifo(5), "new threads have it also after a lock");
        Host::set_own_policy(Policy::Normal).unwrap();
        drop(lock.lock().unwrap());
        Host::set_own_policy(Policy::Fifo(6)).unwrap();
        assert_eq!(begins_with(), Policy::Fifo(6));
        Ok::<(), String>(())
    });
    if let Err(error) = thread.join().unwrap() {
        skip(Lack::Rt, error);
    }
}

//! A lock holder keeps its CPU under the profile of a kernel: it is not preempted. If it sleeps, the run ends
//! with an error that names the lock.

use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Lock, LockGuard, Parker, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Profile, Sim, SimError, Simulation};
use coreshard_topology::{CpuId, Scope};
use coreshard_workqueue::{Intake, Runtime, Wake};

fn on_cpu(cpu: u32, body: impl FnOnce() + Send + 'static) -> <Sim as Platform>::Thread {
    let affinity = Some([CpuId(cpu)].into_iter().collect());
    Sim::spawn(ThreadSpec { affinity, ..ThreadSpec::default() }, Box::new(body)).unwrap()
}

/// Two threads of one CPU and one of another use a lock, and hold it for longer than a slice, constantly
/// reading the clock.
fn clock_is_read_under_a_lock() -> u32 {
    let lock = Arc::new(Lock::<Sim, u32>::new(0));
    let threads: Vec<_> = [0, 0, 1]
        .into_iter()
        .map(|cpu| {
            let lock = Arc::clone(&lock);
            on_cpu(cpu, move || {
                for _ in 0..3 {
                    let mut held = lock.lock();
                    let until = Sim::now() + Duration::from_millis(12);
                    while Sim::now() < until {
                        Sim::compute(Duration::from_micros(50));
                    }
                    *held += 1;
                    drop(held);
                    Sim::now();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(ThreadHandle::join);
    *lock.lock()
}

#[test]
fn a_kernel_that_reads_the_clock_under_a_lock_is_not_preempted_there() {
    let machine = Machine::pocket();
    for profile in Profile::ALL {
        let run = Simulation::new(&machine).profile(profile).run(clock_is_read_under_a_lock);
        assert_eq!(run.unwrap().value, 9, "{profile}");
    }
}

/// Calls `act` while holding a lock over a number.
fn with_a_lock(act: impl FnOnce(LockGuard<'_, Sim, u32>)) {
    let lock = Lock::<Sim, u32>::new(0);
    act(lock.lock());
}

#[test]
fn a_kernel_that_sleeps_with_a_lock_breaks_a_rule_that_names_lock_and_places() {
    let machine = Machine::pocket();
    let ways: [(&str, fn()); 4] = [
        ("sleeps", || Sim::sleep(Duration::from_micros(5))),
        ("yields", Sim::yield_now),
        ("waits", || assert!(!Parker::<Sim>::new().park_timeout(Duration::from_micros(5)))),
        ("joins a thread", || on_cpu(1, || ()).join()),
    ];
    for (does, act) in ways {
        let program = || {
            with_a_lock(|held| {
                act();
                drop(held);
            });
        };
        let run = Simulation::new(&machine).profile(Profile::InKernel).run(program);
        let Err(error @ SimError::Broken { .. }) = run else { panic!("{does}: {run:?}") };
        let text = error.to_string();
        assert!(text.contains(&format!("thread \"main\" {does} at ")), "{text}");
        assert!(text.contains("holds the lock over u32 that it took at"), "{text}");
        assert_eq!(text.lines().next().unwrap().matches(".rs:").count(), 2, "{text}");
        assert!(text.contains("simulated/held_locks.rs:"), "{text}");
        // A program in user space may sleep with a lock, and so may a kernel without one.
        Simulation::new(&machine).run(program).unwrap();
        let before = || with_a_lock(|held| drop(held));
        let after = || {
            before();
            act();
        };
        Simulation::new(&machine).profile(Profile::InKernel).run(after).unwrap();
    }
}

/// A pool whose lock holds are measured, with more producers than CPUs: the guard reads the clock when it is
/// dropped.
#[test]
fn a_pool_that_measures_its_lock_can_be_a_kernels() {
    let machine = Machine::pocket();
    let program = || {
        let runtime = Runtime::<Sim>::builder(machine.topology().clone())
            .measure_lock_holds(true)
            .build()
            .unwrap();
        for wake in Wake::ALL {
            let queue = runtime.workqueue().scope(Scope::System).intake(Intake::Locked).wake(wake);
            let queue = queue.build().unwrap();
            let producers: Vec<_> = (0..64)
                .map(|producer| {
                    let queue = queue.clone();
                    on_cpu(producer % 16, move || {
                        for _ in 0..150 {
                            queue.queue(|| Sim::compute(Duration::from_nanos(300))).unwrap();
                            Sim::now();
                        }
                    })
                })
                .collect();
            producers.into_iter().for_each(ThreadHandle::join);
            queue.drain().unwrap();
        }
        drop(runtime);
        Sim::sleep(Duration::from_millis(40));
    };
    let run = Simulation::new(&machine).profile(Profile::InKernel).run(program);
    run.unwrap_or_else(|error| panic!("{error}"));
}

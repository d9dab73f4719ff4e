//! Priority inversion, with and without its remedies. A low-priority thread holds a lock, a high-priority
//! thread waits for it, and a medium-priority thread computes for long, all on one CPU.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Host, Lock, Policy, RealTime, ThreadHandle, ThreadSpec, Time};
use coreshard_rt::{CeilingMutex, InheritMutex, LockError, Priority};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::CpuSet;
use testing::{Lack, skip};

/// The low thread's time inside the lock; then the medium thread's total time.
const CRITICAL: Duration = Duration::from_micros(200);
const HOG: Duration = Duration::from_millis(20);

const LOW: u8 = 10;
const MEDIUM: u8 = 20;
const HIGH: u8 = 30;

trait Guarded<P: RealTime>: Send + Sync + 'static {
    fn with(&self, work: &mut dyn FnMut());
}

impl<P: RealTime> Guarded<P> for Lock<P, ()> {
    fn with(&self, work: &mut dyn FnMut()) {
        let _guard = self.lock();
        work();
    }
}

impl<P: RealTime> Guarded<P> for InheritMutex<P, ()> {
    fn with(&self, work: &mut dyn FnMut()) {
        let _guard = self.lock().expect("the lock is not poisoned");
        work();
    }
}

impl<P: RealTime> Guarded<P> for CeilingMutex<P, ()> {
    fn with(&self, work: &mut dyn FnMut()) {
        let _guard =
            self.lock().expect("the lock is not poisoned, and its takers are below its ceiling");
        work();
    }
}

struct Scene<P: RealTime, G> {
    lock: G,
    /// The barrier. 0: the low thread does not have the lock yet. 1: it has. 2: all threads have arrived, and
    /// go on.
    stage: P::AtomicU32,
    /// 1 when the medium thread has finished.
    hogged: P::AtomicU32,
    compute: fn(Duration),
}

fn await_stage<P: RealTime, G>(scene: &Scene<P, G>, wanted: u32) {
    loop {
        let stage = scene.stage.load(Acquire);
        if stage >= wanted {
            return;
        }
        P::wait(&scene.stage, stage, None);
    }
}

/// Returns how long the high thread waited, and whether the medium one finished first. Returns `None` if the
/// platform grants no priorities.
fn waited<P: RealTime, G: Guarded<P>>(lock: G, compute: fn(Duration)) -> Option<(Duration, bool)> {
    let cpu: CpuSet = [P::current_cpu()].into_iter().collect();
    let scene = Arc::new(Scene::<P, G> {
        lock,
        stage: P::AtomicU32::new(0),
        hogged: P::AtomicU32::new(0),
        compute,
    });
    let told = Arc::new(Lock::<P, Option<(Duration, bool)>>::new(None));
    let spawn = |priority: u8, body: Box<dyn FnOnce() + Send>| {
        let spec = ThreadSpec {
            name: format!("priority-{priority}"),
            affinity: Some(cpu.clone()),
            ..ThreadSpec::default()
        };
        P::spawn_as(spec, Policy::Fifo(priority), body).ok()
    };
    let ours = Arc::clone(&scene);
    let low = spawn(
        LOW,
        Box::new(move || {
            ours.lock.with(&mut || {
                ours.stage.store(1, Release);
                P::wake_all(&raw const ours.stage);
                await_stage(&ours, 2);
                (ours.compute)(CRITICAL);
            });
        }),
    )?;
    let (ours, tell) = (Arc::clone(&scene), Arc::clone(&told));
    let high = spawn(
        HIGH,
        Box::new(move || {
            await_stage(&ours, 2);
            let asked = P::now();
            let mut had = Time::from_ns(0);
            ours.lock.with(&mut || had = P::now());
            *tell.lock() = Some((had - asked, ours.hogged.load(Acquire) == 1));
        }),
    )?;
    let ours = Arc::clone(&scene);
    let medium = spawn(
        MEDIUM,
        Box::new(move || {
            await_stage(&ours, 2);
            (ours.compute)(HOG);
            ours.hogged.store(1, Release);
        }),
    )?;
    await_stage(&scene, 1);
    scene.stage.store(2, Release);
    P::wake_all(&raw const scene.stage);
    [low, high, medium].into_iter().for_each(ThreadHandle::join);
    told.lock().take()
}

fn simulated<G: Guarded<Sim>>(lock: impl FnOnce() -> G) -> (Duration, bool) {
    let machine = Machine::named("xeon-hcc-2s").unwrap();
    let run = Simulation::new(&machine).seed(4).run(|| {
        // The threads are pinned to this CPU, which this thread leaves to them.
        waited::<Sim, G>(lock(), Sim::compute).expect("all priorities are granted")
    });
    run.unwrap().value
}

/// The critical section, plus a generous time for the switches before and after it.
const BOUND: Duration = CRITICAL.saturating_add(Duration::from_micros(20));

#[test]
fn with_inheritance_the_wait_is_the_critical_section_and_a_switch() {
    let (waited, after_the_hog) = simulated(|| InheritMutex::new(()));
    assert!(!after_the_hog && waited <= BOUND, "{waited:?}");
}

#[test]
fn with_a_ceiling_too() {
    let ceiling = Priority::new(HIGH).unwrap();
    let (waited, after_the_hog) = simulated(|| CeilingMutex::new(ceiling, ()));
    assert!(!after_the_hog && waited <= BOUND, "{waited:?}");
}

#[test]
fn without_them_it_lasts_as_long_as_the_medium_thread_likes() {
    let (waited, after_the_hog) = simulated(|| Lock::new(()));
    assert!(after_the_hog && waited >= HOG, "{waited:?}");
}

fn burn(duration: Duration) {
    let start = coreshard_platform::thread_cpu_time();
    while coreshard_platform::thread_cpu_time() - start < duration {}
}

/// On this machine, if it grants priorities. Checks only the order of events, since the durations are beyond
/// the test's control.
#[test]
fn on_this_machine_the_high_thread_comes_before_the_medium_one() {
    if let Some((_, after_the_hog)) = waited::<Host, _>(InheritMutex::new(()), burn) {
        assert!(!after_the_hog, "inheritance");
        let ceiling = Priority::new(HIGH).unwrap();
        let (_, after_the_hog) = waited::<Host, _>(CeilingMutex::new(ceiling, ()), burn).unwrap();
        assert!(!after_the_hog, "ceiling");
        let (_, after_the_hog) = waited::<Host, _>(Lock::new(()), burn).unwrap();
        assert!(after_the_hog, "and without either the order is reversed");
    } else {
        skip(Lack::Rt, "no thread of high priority can be started");
    }
}

/// A thread that ends after forgetting its guard leaves the lock held: later takers get an error.
#[test]
fn a_lock_whose_holder_has_ended_says_so() {
    let lock = Arc::new(InheritMutex::<Host, u32>::new(7));
    let theirs = Arc::clone(&lock);
    std::thread::spawn(move || std::mem::forget(theirs.lock().unwrap())).join().unwrap();
    assert!(matches!(lock.try_lock(), Err(LockError::Held)));
    match lock.lock() {
        Err(error @ LockError::HolderGone) => {
            assert!(error.to_string().contains("has ended"), "{error}");
        }
        Err(LockError::Unsupported) => {}
        other => panic!("{:?}", other.map(drop).map_err(|error| error.to_string())),
    }
}

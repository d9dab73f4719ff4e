//! How soon many workers run if there is enough work, after all of them fell asleep.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Parker, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::{CpuId, Scope};
use coreshard_workqueue::{Hooks, Reactor, Runtime, SharedReactor, Workqueue, join};

use crate::machines;

const ITEMS: usize = 64;
const SILENCE: Duration = Duration::from_millis(10);

struct Burst {
    started: Vec<<Sim as Platform>::AtomicU64>,
    left: <Sim as Platform>::AtomicU64,
    over: Parker<Sim>,
}

/// Returns the microseconds until the last item of a burst of 64 begins, by burst, without the first ones.
fn bursts(queue: &Workqueue<Sim>, item: Duration) -> Vec<u64> {
    let one = || {
        let burst = Arc::new(Burst {
            started: (0..ITEMS).map(|_| <Sim as Platform>::AtomicU64::new(0)).collect(),
            left: <Sim as Platform>::AtomicU64::new(ITEMS as u64),
            over: Parker::new(),
        });
        let begun = Sim::now();
        for at in 0..ITEMS {
            let shared = Arc::clone(&burst);
            let body = move || {
                shared.started[at].store(Sim::now().ns_since(begun), Relaxed);
                Sim::compute(item);
                if shared.left.fetch_sub(1, AcqRel) == 1 {
                    shared.over.unpark();
                }
            };
            queue.queue(body).unwrap();
        }
        while burst.left.load(Acquire) > 0 {
            burst.over.park();
        }
        let last = burst.started.iter().map(|at| at.load(Relaxed)).max();
        last.unwrap() / 1_000
    };
    let each = (0..12).map(|_| {
        Sim::sleep(SILENCE);
        one()
    });
    each.collect::<Vec<_>>().split_off(4)
}

fn on_cpu<R: Send + 'static>(cpu: u32, body: impl FnOnce() -> R + Send + 'static) -> R {
    let affinity = Some([CpuId(cpu)].into_iter().collect());
    let result = Arc::new(std::sync::Mutex::new(None));
    let theirs = Arc::clone(&result);
    let body = move || *theirs.lock().unwrap() = Some(body());
    Sim::spawn(ThreadSpec { affinity, ..ThreadSpec::default() }, Box::new(body)).unwrap().join();
    let value = result.lock().unwrap().take();
    value.unwrap()
}

fn with_queue<R: Send + 'static>(
    scope: Scope,
    seed: u64,
    body: impl FnOnce(Workqueue<Sim>) -> R + Send + 'static,
) -> R {
    with_hooks(scope, seed, Hooks::new, body)
}

fn with_hooks<R: Send + 'static>(
    scope: Scope,
    seed: u64,
    hooks: fn() -> Hooks,
    body: impl FnOnce(Workqueue<Sim>) -> R + Send + 'static,
) -> R {
    let machine = Machine::from_toml("16 vCPUs", machines::XEON_16_VCPU).unwrap();
    let topology = machine.topology().clone();
    let run = Simulation::new(&machine).seed(seed).run(move || {
        let runtime = Runtime::<Sim>::builder(topology).build().unwrap();
        let queue = runtime.workqueue().scope(scope).hooks(hooks()).build().unwrap();
        let theirs = queue.clone();
        let value = on_cpu(0, move || body(theirs));
        queue.shutdown(Duration::from_secs(1)).unwrap();
        value
    });
    run.unwrap().value
}

fn median(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of[of.len() / 2]
}

/// The number of running workers doubles with each wake-up, which takes 37 µs here. If it grew by one with
/// each, the last item of a burst of 10 µs items would begin after 207 µs in a pool of eight, and after 210
/// in one of sixteen.
#[test]
fn a_burst_of_items_that_are_worth_it_is_on_many_cpus_soon() {
    let item = Duration::from_micros(10);
    let last_us = |scope| median(with_queue(scope, 1, move |queue| bursts(&queue, item)));
    let (eight, sixteen) = (last_us(Scope::CacheShard), last_us(Scope::Cache));
    assert!(eight < 110, "{eight} us");
    assert!(sixteen < 110, "{sixteen} us");
}

#[test]
fn a_burst_that_is_too_much_for_its_pod_is_helped_by_neighbouring_pods() {
    let last_us = |is_strict| {
        let machine = Machine::from_toml("16 vCPUs", machines::XEON_16_VCPU).unwrap();
        let topology = machine.topology().clone();
        let run = Simulation::new(&machine).run(move || {
            let runtime = Runtime::<Sim>::builder(topology).build().unwrap();
            let queue = runtime.workqueue().scope(Scope::CacheShard).shard_size(2);
            let queue = queue.strict(is_strict).build().unwrap();
            let theirs = queue.clone();
            let last_us = on_cpu(0, move || median(bursts(&theirs, Duration::from_micros(10))));
            let guests: u64 = queue.stats().pools.iter().map(|pool| pool.guests).sum();
            queue.shutdown(Duration::from_secs(1)).unwrap();
            (last_us, guests)
        });
        run.unwrap().value
    };
    // Two workers have 320 µs of work each.
    let (alone_us, none) = last_us(true);
    assert_eq!(none, 0, "workers of a strict queue stay in their pod");
    assert!(alone_us > 300, "{alone_us} us");
    let (us, guests) = last_us(false);
    assert!(guests > 12, "{guests} visits in 12 bursts");
    assert!(us < 120, "{us} us");
}

/// How work is divided into as many parts as there are CPUs, of a millisecond each.
#[derive(Clone, Copy, Debug)]
enum Parts {
    Loop,
    Join,
    Scope,
}

const PARTS: usize = 16;

fn compute_part() {
    Sim::compute(Duration::from_millis(1));
}

fn join_parts(parts: usize) {
    if parts == 1 {
        return compute_part();
    }
    join::<Sim, _, _>(|| join_parts(parts / 2), || join_parts(parts - parts / 2));
}

impl Parts {
    fn run(self, queue: &Workqueue<Sim>) {
        match self {
            Self::Loop => queue.for_each_mut(&mut [(); PARTS], |()| compute_part()).unwrap(),
            Self::Join => queue.install(|| join_parts(PARTS)).unwrap(),
            Self::Scope => {
                let scope = || {
                    queue.scope(|scope| {
                        (0..PARTS).for_each(|_| scope.queue(compute_part).unwrap());
                    });
                };
                queue.install(scope).unwrap();
            }
        }
    }
}

/// Returns how long `work` takes, in microseconds, after silences, without the first runs.
fn times_us(work: impl Fn()) -> Vec<u64> {
    let each = (0..20).map(|_| {
        Sim::sleep(SILENCE);
        let begun = Sim::now();
        work();
        Sim::now().ns_since(begun) / 1_000
    });
    each.collect::<Vec<_>>().split_off(4)
}

/// Suppose each thief woke one other, and a thief that was on its way while a job was shared checked only the
/// worker it steals from. Then the last part would begin when the first has finished: 2.1 to 3.2 ms.
#[test]
fn as_many_long_parts_as_cpus_are_done_at_once() {
    for parts in [Parts::Loop, Parts::Join, Parts::Scope] {
        for scope in [Scope::CacheShard, Scope::Cache] {
            let run = move |queue: Workqueue<Sim>| times_us(|| parts.run(&queue));
            let us = median(with_queue(scope, 1, run));
            assert!(us < 1_450, "{parts:?}, {scope}: {us} us");
        }
    }
}

/// Never ready, until it is woken.
struct Idle(Parker<Sim>);

impl Reactor for Idle {
    fn wait(&self) {
        self.0.park();
    }
    fn poll(&self) {}
    fn wake(&self) {
        self.0.unpark();
    }
}

/// While one worker sleeps in a reactor, the others park without being named.
#[test]
fn beside_a_reactor_they_are_done_at_once_too() {
    let hooks = || Hooks::new().reactor(SharedReactor::new(Idle(Parker::new())));
    for parts in [Parts::Loop, Parts::Join, Parts::Scope] {
        let run = move |queue: Workqueue<Sim>| times_us(|| parts.run(&queue));
        let us = median(with_hooks(Scope::Cache, 1, hooks, run));
        assert!(us < 1_450, "{parts:?}: {us} us");
    }
}

/// 8 ms of work of unknown length before it begins: 0.8 to 0.9 ms if each thief woke one other.
#[test]
fn a_long_loop_of_short_elements_is_on_all_cpus_soon() {
    for scope in [Scope::CacheShard, Scope::Cache] {
        let body = |_: &mut ()| Sim::compute(Duration::from_micros(2));
        let one = move |queue: &Workqueue<Sim>| queue.for_each_mut(&mut [(); 4_096], body).unwrap();
        let us = median(with_queue(scope, 1, move |queue| times_us(|| one(&queue))));
        assert!(us < 740, "{scope}: {us} us");
    }
}

/// Work that takes less than a wake-up wakes one thief, which is on its way before that is known.
#[test]
fn a_short_loop_calls_few() {
    let body = |_: &mut ()| Sim::compute(Duration::from_nanos(100));
    let run = move |queue: Workqueue<Sim>| {
        let wakeups = || queue.stats().pools.iter().map(|pool| pool.wakeups).sum::<u64>();
        let before = wakeups();
        let times = times_us(|| queue.for_each_mut(&mut [(); 64], body).unwrap());
        (wakeups() - before, times.len())
    };
    let (wakeups, loops) = with_queue(Scope::Cache, 1, run);
    assert!(wakeups < 3 * loops as u64, "{wakeups} for {loops} loops");
}

/// Returns the median and the longest latency of small items, in microseconds, while a long item is always
/// running.
fn mixed(queue: &Workqueue<Sim>) -> (u64, u64) {
    let stop = Arc::new(<Sim as Platform>::AtomicU32::new(0));
    let (theirs, stopped) = (queue.clone(), Arc::clone(&stop));
    let large = move || {
        while stopped.load(Acquire) == 0 {
            let over = Arc::new(Parker::<Sim>::new());
            let told = Arc::clone(&over);
            theirs
                .queue(move || {
                    Sim::compute(Duration::from_micros(500));
                    told.unpark();
                })
                .unwrap();
            over.park();
        }
    };
    let large = Sim::spawn(ThreadSpec::default(), Box::new(large)).unwrap();
    let taken: Arc<Vec<_>> =
        Arc::new((0..2_000).map(|_| <Sim as Platform>::AtomicU64::new(0)).collect());
    for at in 0..2_000 {
        Sim::sleep(Duration::from_micros(200));
        let (begun, taken) = (Sim::now(), Arc::clone(&taken));
        queue
            .queue(move || {
                Sim::compute(Duration::from_micros(1));
                taken[at].store(Sim::now().ns_since(begun), Relaxed);
            })
            .unwrap();
    }
    Sim::sleep(Duration::from_millis(10));
    stop.store(1, Release);
    large.join();
    let mut all: Vec<u64> = taken.iter().map(|it| it.load(Relaxed) / 1_000).collect();
    all.sort_unstable();
    (all[1_000], all[1_999])
}

/// A worker whose own items were short must not suppress wake-ups for a possibly long one: items behind it
/// would wait until it has finished.
#[test]
fn no_small_item_waits_behind_a_long_one() {
    for scope in [Scope::CacheShard, Scope::Cache] {
        for seed in 1..4 {
            let (median, most) = with_queue(scope, seed, |queue| mixed(&queue));
            assert!(median < 20 && most < 100, "{scope}, {seed}: {median}, {most} us");
        }
    }
}

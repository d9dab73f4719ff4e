//! The mixed load: several threads that each do one operation after the other, drawn at random.
//!
//! All threads use the queues and reusable items at once. Each operation undoes its own changes: for example, it thaws a
//! queue that it has frozen.

mod blocks;
mod futures;
mod lives;
mod queues;
mod realtime;
mod works;

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use coreshard::{CpuSet, Intake, Periodic, Runtime, Scope, Topology, Wake, Work, Workqueue};
use fastrand::Rng;

use crate::ledger::Ledger;

/// One kind of operation.
pub(crate) type Operation = fn(&Site, &mut Rng);

/// All operations, with the weight of each.
const OPERATIONS: &[(&str, u32, Operation)] = &[
    ("queue", 40, queues::queue),
    ("queue_somewhere", 10, queues::queue_somewhere),
    ("submit", 20, queues::submit),
    ("scope", 10, queues::scope),
    ("nested_scope", 3, queues::nested_scope),
    ("install", 10, queues::install),
    ("loops", 6, queues::loops),
    ("panics", 10, queues::panics),
    ("waits", 4, queues::waits),
    ("flush", 4, queues::flush),
    ("drain", 2, queues::drain),
    ("freeze", 2, lives::freeze),
    ("change", 3, lives::change),
    ("short_queue", 3, lives::short_queue),
    ("short_runtime", 1, lives::short_runtime),
    ("usable_cpus", 1, lives::usable_cpus),
    ("statistics", 2, lives::statistics),
    ("fork", 1, lives::fork),
    ("spawn", 15, futures::spawn),
    ("cancel_task", 8, futures::cancel),
    ("sleep", 4, futures::sleep),
    ("work", 20, works::work),
    ("delayed_work", 8, works::delayed),
    ("periodic", 2, works::periodic),
    ("blocks_in_memory", 3, blocks::in_memory),
    ("blocks_in_a_file", 2, blocks::in_a_file),
    ("real_time", 1, realtime::tasks),
];

/// The objects that all threads use.
pub(crate) struct Site {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) topology: Topology,
    pub(crate) cpus: CpuSet,
    pub(crate) runtime: Runtime,
    /// Queues of different kinds that live as long as the load.
    pub(crate) queues: Vec<Workqueue>,
    pub(crate) works: Vec<(Work, Arc<AtomicU64>)>,
    _tick: Option<Periodic>,
    /// A folder for the files of block operations.
    pub(crate) folder: tempfile::TempDir,
}

/// The duration and the settings of the load.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Ends the load after this time.
    pub(crate) time: Duration,
    /// Ends the load when each thread has done this many operations.
    pub(crate) operations: u64,
    /// Only these, if any are named.
    pub(crate) only: Vec<String>,
    /// Not these.
    pub(crate) without: Vec<String>,
    /// An operation that takes longer is a hang.
    pub(crate) hang_after: Duration,
}

impl Plan {
    fn operations(&self) -> Result<Vec<(&'static str, u32, Operation)>> {
        let known = |name: &String| OPERATIONS.iter().any(|(known, ..)| known == name);
        if let Some(name) = self.only.iter().chain(&self.without).find(|name| !known(name)) {
            let all: Vec<_> = OPERATIONS.iter().map(|(name, ..)| *name).collect();
            anyhow::bail!("unknown operation {name:?}: expected one of {}", all.join(", "));
        }
        let is_wanted = |name: &str| {
            (self.only.is_empty() || self.only.iter().any(|only| only == name))
                && !self.without.iter().any(|without| without == name)
        };
        let chosen: Vec<_> =
            OPERATIONS.iter().filter(|(name, ..)| is_wanted(name)).copied().collect();
        anyhow::ensure!(!chosen.is_empty(), "no operation is left");
        Ok(chosen)
    }
}

impl Site {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Result<Self> {
        // Two caches with two cores each, laid over the real CPUs: several pods on any machine.
        let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1")?;
        let cpus = coreshard::runtime_builder()?.build()?.usable();
        let runtime = Runtime::builder(topology.clone())
            .laid_over(cpus.clone())
            .max_workers(200)
            .idle_timeout(Duration::from_millis(5))
            .build()?;
        let build = || runtime.workqueue();
        // With a limit on threads, the first worker's start may have to be retried.
        let queues = vec![
            patiently(|| build().name("plain").build())?,
            patiently(|| build().name("ordered").ordered().build())?,
            patiently(|| build().name("two at a time").max_active(2).build())?,
            patiently(|| build().name("rescued").scope(Scope::System).rescuer(true).build())?,
            patiently(|| {
                build().scope(Scope::Cpu).intake(Intake::Locked).wake(Wake::UnderLock).build()
            })?,
            patiently(|| build().scope(Scope::Smt).wake(Wake::Coalesced).strict(true).build())?,
        ];
        let works = (0..4)
            .map(|_| {
                let ran = Arc::new(AtomicU64::new(0));
                let count = Arc::clone(&ran);
                let count_one = move |_: &Work| {
                    count.fetch_add(1, Relaxed);
                };
                (Work::new(count_one), ran)
            })
            .collect();
        let tick = Periodic::start(&queues[0], Duration::from_millis(3), Default::default(), || ());
        Ok(Self {
            ledger: Arc::clone(ledger),
            topology,
            cpus,
            runtime,
            queues,
            works,
            _tick: tick.ok(),
            folder: tempfile::tempdir().context("a folder for the files of block operations")?,
        })
    }

    pub(crate) fn any_queue(&self, rng: &mut Rng) -> &Workqueue {
        &self.queues[rng.usize(..self.queues.len())]
    }
}

/// Retries for a while: a call that fails for lack of a thread may succeed later.
pub(crate) fn patiently<T, E>(mut build: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let begin = Instant::now();
    loop {
        match build() {
            Err(_) if begin.elapsed() < Duration::from_secs(30) => {
                thread::sleep(Duration::from_millis(5));
            }
            result => return result,
        }
    }
}

/// The progress of one thread, for the detection of hangs.
struct Progress {
    /// Operations that it has finished, or [`OVER`].
    ended: AtomicU64,
    operation: AtomicU32,
}

/// This thread has no operation.
const OVER: u64 = u64::MAX;

/// Runs the load. Returns how many operations were done.
pub(crate) fn run(plan: &Plan, site: Site) -> Result<u64> {
    let operations = plan.operations()?;
    let weights: u32 = operations.iter().map(|(_, weight, _)| weight).sum();
    let done = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    // One more for the end of the load, which has not begun.
    let all: Vec<Progress> = (0..=plan.threads)
        .map(|at| Progress {
            ended: AtomicU64::new(if at == plan.threads { OVER } else { 0 }),
            operation: AtomicU32::new(0),
        })
        .collect();
    let names: Vec<_> = operations.iter().map(|(name, ..)| *name).collect();
    let start = Instant::now();
    thread::scope(|scope| -> Result<()> {
        let (all, over) = (&all, &over);
        let _watched = Until(over);
        patiently(|| {
            let watch = thread::Builder::new().name("hang-watch".into());
            watch.spawn_scoped(scope, || watch_for_hangs(all, &names, over, plan.hang_after))
        })?;
        thread::scope(|scope| -> Result<()> {
            let (operations, site, done) = (&operations, &site, &done);
            let thread = |thread: usize| {
                let seed = plan.seed.wrapping_mul(1_000).wrapping_add(thread as u64);
                let act = move || {
                    let mut rng = Rng::with_seed(seed);
                    for _ in 0..plan.operations {
                        if start.elapsed() > plan.time {
                            break;
                        }
                        let at = draw(operations, rng.u32(..weights));
                        all[thread].operation.store(at as u32, Relaxed);
                        let (name, _, operation) = operations[at];
                        let act = AssertUnwindSafe(|| operation(site, &mut rng));
                        if let Err(thrown) = panic::catch_unwind(act) {
                            site.ledger.broken(format!("{name} panicked: {}", text_of(&*thrown)));
                        }
                        all[thread].ended.fetch_add(1, Relaxed);
                        done.fetch_add(1, Relaxed);
                    }
                    all[thread].ended.store(OVER, Relaxed);
                };
                patiently(|| thread::Builder::new().spawn_scoped(scope, act))
            };
            let threads: Vec<_> = (0..plan.threads).map(thread).collect::<Result<_, _>>()?;
            for thread in threads {
                thread.join().expect("panics of operations are caught");
            }
            Ok(())
        })?;
        // The end is also watched.
        all[plan.threads].ended.store(0, Relaxed);
        site.end()
    })?;
    Ok(done.load(Relaxed))
}

fn text_of(thrown: &(dyn Any + Send)) -> &str {
    let text = thrown.downcast_ref::<&str>().copied();
    text.or_else(|| thrown.downcast_ref::<String>().map(String::as_str)).unwrap_or("not a text")
}

/// The operation at `draw` of all their weights, laid end to end.
fn draw(operations: &[(&str, u32, Operation)], mut draw: u32) -> usize {
    let is_hit = |(_, weight, _): &(_, u32, _)| {
        let is_hit = draw < *weight;
        draw = draw.saturating_sub(*weight);
        is_hit
    };
    operations.iter().position(is_hit).expect("the draw is below the weights' sum")
}

/// Ends the watch, however its scope is left.
struct Until<'a>(&'a AtomicBool);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Site {
    /// Waits for accepted items, and drops everything.
    fn end(self: Site) -> Result<()> {
        let Self { runtime, queues, works, ledger, .. } = self;
        for queue in &queues {
            ledger.succeeded("drain at the end", queue.drain());
        }
        drop(works);
        drop(queues);
        ledger.succeeded("shutdown at the end", runtime.shutdown(Duration::from_secs(60)));
        Ok(())
    }
}

/// Ends the process with a message if an operation of a thread takes too long.
fn watch_for_hangs(all: &[Progress], names: &[&str], over: &AtomicBool, hang_after: Duration) {
    let mut last: Vec<(u64, Duration)> = vec![(0, Duration::ZERO); all.len()];
    let pause = Duration::from_millis(50);
    while !over.load(Relaxed) {
        thread::sleep(pause);
        for (at, (progress, (ended, idle))) in all.iter().zip(&mut last).enumerate() {
            let now = progress.ended.load(Relaxed);
            // Counts its own checks instead of the clock: a stopped process makes none.
            *idle = if now == *ended && now != OVER { *idle + pause } else { Duration::ZERO };
            *ended = now;
            if *idle > hang_after {
                let operation = progress.operation.load(Relaxed) as usize;
                let name = if at + 1 == all.len() { "the end" } else { names[operation] };
                crate::hung(name, hang_after);
            }
        }
    }
}

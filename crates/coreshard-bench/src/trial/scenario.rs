//! Small programs for sweeps, in which the first call of a kind fails, then the second, and so on: each uses
//! one part of the workqueue in a way that is the same each time.
//!
//! Rules for them:
//!
//! 1. What is accepted must run, also where nothing comes after it: nobody queues anything to wake
//!    others, and waiting is sleeping and looking at the [`Record`].
//! 2. A call that is refused is made again until it succeeds, for longer than anything fails; where the
//!    item itself came back, that is all that is asked for.
//! 3. Whoever calls what may throw does so in front of a net.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::{Platform, ThreadHandle, ThreadSpec, user};
use coreshard_topology::{CpuSet, Scope, Topology, input::quoted};
use coreshard_workqueue::{
    Builder, Hooks, Intake, MissedTick, Periodic, Runtime, RuntimeBuilder, Wake, Work, Workqueue,
    blocking, join, yield_now,
};

use super::record::{Owned, Record};

/// How often, and for how long, something is tried again that was refused.
const TRIES: usize = 60;
const TRY_EVERY: Duration = Duration::from_millis(2);

/// How long a round may take until all that was accepted is over.
const SETTLES: usize = 1_000;
const LOOK_EVERY: Duration = Duration::from_micros(500);

pub(super) const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scenario {
    /// A pool of one worker at a time, whose items wait, with and without saying so.
    Blocking,
    /// The same, with all threads of the program on one CPU.
    OneCpu,
    /// The same, with one worker for the whole runtime, and a reserve.
    Rescuer,
    /// Items that come and go so that workers do, with hooks.
    Hooks,
    /// Several producers that wait for their items.
    Handles,
    /// Periodic and delayed work, and its end.
    Periodic,
    /// Reusable work on queues with limits: queued, cancelled, flushed.
    Limits,
    /// Scopes, one in another.
    Scopes,
    /// Forks and joins.
    Forks,
    /// Freeze and thaw.
    Freeze,
    /// Changes of scope, mask and limit while items run.
    Change,
    /// Other CPUs for the whole runtime.
    Usable,
    /// Queues that are made and dropped with items in them.
    Drops,
    /// Futures that sleep, yield, and are cancelled.
    Tasks,
    /// Parallel loops under a lock, inside parallel loops.
    UnderLock,
    /// Items that are cancelled, waited for in vain, and set aside.
    Cancels,
    /// Teams, whose members fork, spawn and are sent broadcasts, and that end meanwhile.
    Teams,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Blocking,
        Self::OneCpu,
        Self::Rescuer,
        Self::Hooks,
        Self::Handles,
        Self::Periodic,
        Self::Limits,
        Self::Scopes,
        Self::Forks,
        Self::Freeze,
        Self::Change,
        Self::Usable,
        Self::Drops,
        Self::Tasks,
        Self::UnderLock,
        Self::Cancels,
        Self::Teams,
    ];
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Blocking => "blocking",
            Self::OneCpu => "one-cpu",
            Self::Rescuer => "rescuer",
            Self::Hooks => "hooks",
            Self::Handles => "handles",
            Self::Periodic => "periodic",
            Self::Limits => "limits",
            Self::Scopes => "scopes",
            Self::Forks => "forks",
            Self::Freeze => "freeze",
            Self::Change => "change",
            Self::Usable => "usable",
            Self::Drops => "drops",
            Self::Tasks => "tasks",
            Self::UnderLock => "under-lock",
            Self::Cancels => "cancels",
            Self::Teams => "teams",
        })
    }
}

/// Why a text is no [`Scenario`].
#[derive(Clone, PartialEq, Eq)]
pub struct ParseScenarioError {
    /// As it is shown: in quotes, shortened.
    given: String,
}

impl fmt::Display for ParseScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = Scenario::ALL.iter().map(Scenario::to_string).collect();
        write!(f, "{} is no program of a sweep; there are {}", self.given, all.join(", "))
    }
}

coreshard_topology::readable_debug!(ParseScenarioError);

impl std::error::Error for ParseScenarioError {}

impl FromStr for Scenario {
    type Err = ParseScenarioError;

    fn from_str(text: &str) -> Result<Self, ParseScenarioError> {
        let found = Self::ALL.into_iter().find(|scenario| scenario.to_string() == text);
        found.ok_or_else(|| ParseScenarioError { given: quoted(text).to_string() })
    }
}

/// How a scenario is run.
#[derive(Clone, Debug)]
pub struct ScenarioTrial {
    /// Which.
    pub scenario: Scenario,
    /// How often it does what it does.
    pub rounds: usize,
    topology: Topology,
    intake: Intake,
    wake: Wake,
}

impl ScenarioTrial {
    /// A scenario on a machine; the seed decides the rungs.
    #[must_use]
    pub fn new(scenario: Scenario, rounds: usize, seed: u64, topology: &Topology) -> Self {
        let rung = |count: usize| (seed % count as u64) as usize;
        Self {
            scenario,
            rounds,
            topology: topology.clone(),
            intake: Intake::ALL[Intake::ALL.len() - 1 - rung(Intake::ALL.len())],
            wake: Wake::ALL[Wake::ALL.len() - 1 - rung(Wake::ALL.len())],
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// Where the workqueue broke a promise, in words.
    pub fn run<P: Platform>(&self, record: &Arc<Record>) -> Result<(), String> {
        let stage = Stage::<P> { trial: self, record, platform: std::marker::PhantomData };
        let done = user::call(|| stage.run());
        done.map_err(|thrown| {
            let what = thrown.message().map(str::to_owned);
            format!("the first thread panicked: {}", what.as_deref().unwrap_or("(not a text)"))
        })??;
        // Whatever was left to other threads comes to its end.
        P::sleep(Duration::from_millis(40));
        record.verdict()
    }
}

/// Drops what a user's code may have left, in front of a net.
pub(super) fn discard<T>(value: T) {
    drop(user::discard(value));
}

pub(super) struct Stage<'run, P: Platform> {
    trial: &'run ScenarioTrial,
    pub(super) record: &'run Arc<Record>,
    platform: std::marker::PhantomData<P>,
}

impl<P: Platform> Stage<'_, P> {
    fn run(&self) -> Result<(), String> {
        match self.trial.scenario {
            Scenario::Blocking => self.blocking(1),
            Scenario::OneCpu => {
                // It may be refused: then the threads are where they are.
                let _ = P::set_affinity(&self.cpus(1));
                self.blocking(1)
            }
            Scenario::Rescuer => self.rescuer(),
            Scenario::Hooks => self.hooks(),
            Scenario::Handles => self.handles(),
            Scenario::Periodic => self.periodic(),
            Scenario::Limits => self.limits(),
            Scenario::Scopes => self.scopes(),
            Scenario::Forks => self.forks(),
            Scenario::Freeze => self.freeze(),
            Scenario::Change => self.change(),
            Scenario::Usable => self.usable(),
            Scenario::Drops => self.drops(),
            Scenario::Tasks => self.tasks(),
            Scenario::UnderLock => self.under_lock(),
            Scenario::Cancels => self.cancels(),
            Scenario::Teams => self.teams(),
        }
    }

    /// The first CPUs of the machine.
    fn cpus(&self, count: usize) -> CpuSet {
        self.trial.topology.online().iter().take(count).collect()
    }

    pub(super) fn runtime(
        &self,
        cpus: usize,
        set: impl FnOnce(RuntimeBuilder<P>) -> RuntimeBuilder<P>,
    ) -> Result<Runtime<P>, String> {
        let builder = Runtime::<P>::builder(self.trial.topology.clone())
            .usable(self.cpus(cpus))
            .idle_timeout(us(300));
        set(builder).build().map_err(|error| format!("no runtime: {error}"))
    }

    /// A queue, as soon as it can be had.
    pub(super) fn queue(
        &self,
        runtime: &Runtime<P>,
        set: impl Fn(Builder<'_, P>) -> Builder<'_, P>,
    ) -> Result<Workqueue<P>, String> {
        self.until_done("a queue", || {
            let builder = runtime
                .workqueue()
                .intake(self.trial.intake)
                .wake(self.trial.wake)
                .scope(Scope::System);
            set(builder).build()
        })
    }

    /// Tries again what may be refused while something fails.
    pub(super) fn until_done<T, E: fmt::Display>(
        &self,
        what: &str,
        mut act: impl FnMut() -> Result<T, E>,
    ) -> Result<T, String> {
        let mut tries = 0;
        loop {
            match act() {
                Ok(value) => return Ok(value),
                Err(_) if tries < TRIES => {
                    tries += 1;
                    P::sleep(TRY_EVERY);
                }
                Err(error) => return Err(format!("{what} is not to be had: {error}")),
            }
        }
    }

    /// Waits until all that was accepted is over. Wakes nobody.
    fn settle(&self) -> Result<(), String> {
        let settled = self.wait_until("items", || self.record.unfinished() == 0);
        settled.map_err(|_| {
            format!("{} accepted items do not come to their end", self.record.unfinished())
        })
    }

    /// Waits until `holds`, for as long as items may take.
    pub(super) fn wait_until(&self, what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
        for _ in 0..SETTLES {
            if holds() {
                return Ok(());
            }
            P::sleep(LOOK_EVERY);
        }
        Err(format!("{what} does not come to its end"))
    }

    /// How members are woken, and learn of work.
    pub(super) fn rungs(&self) -> (Wake, Intake) {
        (self.trial.wake, self.trial.intake)
    }

    /// Queues an item.
    fn put(&self, queue: &Workqueue<P>, work: impl FnOnce() + Send + 'static) {
        put(self.record, queue, work);
    }

    pub(super) fn rounds(&self) -> std::ops::Range<usize> {
        0..self.trial.rounds
    }

    fn blocking(&self, cpus: usize) -> Result<(), String> {
        let runtime = self.runtime(cpus, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder)?;
        for round in self.rounds() {
            self.waiting_items(&queue, round);
            self.settle()?;
        }
        Ok(())
    }

    /// Items that wait, so that others need a worker: those that say so, for longer than the monitor takes
    /// to scan, and those that do not, for longer than it takes to notice.
    fn waiting_items(&self, queue: &Workqueue<P>, round: usize) {
        let step = us(round as u64 % 7 * 150);
        self.put(queue, move || blocking::<P, _>(|| P::sleep(us(3_900) + step)));
        self.put(queue, || ());
        self.put(queue, move || blocking::<P, _>(|| P::sleep(us(200) + step)));
        self.put(queue, || P::sleep(us(9_000)));
        self.put(queue, || ());
    }

    fn rescuer(&self) -> Result<(), String> {
        let runtime = self.runtime(2, |builder| builder.max_workers(1))?;
        let queue = self.queue(&runtime, |builder| builder.rescuer(true))?;
        for round in self.rounds() {
            self.waiting_items(&queue, round);
            self.settle()?;
        }
        Ok(())
    }

    fn hooks(&self) -> Result<(), String> {
        let runtime = self.runtime(4, |builder| builder.idle_timeout(us(150)))?;
        let (starts, stops) = (Arc::clone(self.record), Arc::clone(self.record));
        let hooks = Hooks::new().on_start(move |_| starts.call()).on_stop(move |_| stops.call());
        let queue =
            self.queue(&runtime, |builder| builder.scope(Scope::Smt).nice(5).hooks(hooks.clone()))?;
        for round in self.rounds() {
            for cpu in self.cpus(4).iter() {
                let record = self.record;
                let item = record.offer();
                let work = item_of(record, item, move || P::sleep(us(40)));
                let answer = queue.queue_on(cpu, work);
                record.answer(item, answer.is_ok());
                discard(answer);
            }
            self.settle()?;
            P::sleep(us(100 + round as u64 % 3 * 100));
        }
        drop(queue);
        Ok(())
    }

    fn handles(&self) -> Result<(), String> {
        let runtime = self.runtime(4, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder.scope(Scope::Cache))?;
        let mut threads = Vec::new();
        for producer in 0..3_u32 {
            let (queue, record) = (queue.clone(), Arc::clone(self.record));
            let rounds = self.trial.rounds;
            let body = move || {
                for round in 0..rounds {
                    let item = record.offer();
                    let inner = (queue.clone(), Arc::clone(&record));
                    let work = item_of(&record, item, move || {
                        let (queue, record) = inner;
                        put(&record, &queue, || P::sleep(us(15)));
                        if round % 3 == 1 {
                            blocking::<P, _>(|| P::sleep(us(60)));
                        }
                    });
                    let handle = queue.submit(work);
                    record.answer(item, handle.is_ok());
                    drop(user::call(|| handle.map(|handle| discard(handle.join()))));
                }
            };
            let spec = ThreadSpec { name: format!("producer {producer}"), ..ThreadSpec::default() };
            threads.extend(P::spawn(spec, Box::new(body)));
        }
        threads.into_iter().for_each(ThreadHandle::join);
        self.settle()
    }

    fn periodic(&self) -> Result<(), String> {
        let runtime = self.runtime(2, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder)?;
        for round in self.rounds() {
            let ticks = Arc::new(AtomicU32::new(0));
            let periodic = self.until_done("periodic work", || {
                let (record, ticks) = (Arc::clone(self.record), Arc::clone(&ticks));
                let owned = Owned(Arc::clone(self.record));
                Periodic::start(&queue, us(400), MissedTick::Skip, move || {
                    let _owned = &owned;
                    ticks.fetch_add(1, SeqCst);
                    record.call();
                })
            })?;
            let late = self.record.offer();
            let record = Arc::clone(self.record);
            let work = Work::<P>::new(move |_| {
                let _running = record.begin(late);
                record.call();
            });
            let accepted = work.queue_after(&queue, us(700)).is_ok();
            self.record.answer(late, accepted);
            P::sleep(us(2_000));
            self.until_done("the next tick", || {
                if ticks.load(SeqCst) >= 3 { Ok(()) } else { Err("it does not come") }
            })?;
            self.settle()?;
            periodic.stop_and_wait().map_err(|error| error.to_string())?;
            let last = ticks.load(SeqCst);
            if round % 2 == 0 {
                P::sleep(us(900));
            }
            if ticks.load(SeqCst) != last {
                return Err("a tick came after periodic work was stopped".to_owned());
            }
            discard(periodic);
            discard(work);
        }
        Ok(())
    }

    fn limits(&self) -> Result<(), String> {
        let runtime = self.runtime(4, |builder| builder)?;
        let ordered = self.queue(&runtime, |builder| builder.ordered())?;
        let narrow = self.queue(&runtime, |builder| builder.max_active(2))?;
        for _ in self.rounds() {
            for queue in [&ordered, &narrow] {
                self.put(queue, || blocking::<P, _>(|| P::sleep(us(300))));
                self.put(queue, || P::sleep(us(50)));
                let item = self.record.offer();
                let record = Arc::clone(self.record);
                let work = Work::<P>::new(move |_| {
                    let _running = record.begin(item);
                    record.call();
                });
                let accepted = work.queue(queue).is_ok_and(|queued| queued);
                self.record.answer(item, accepted);
                let cancelled = self.record.offer();
                let record = Arc::clone(self.record);
                let other = Work::<P>::new(move |_| {
                    let _running = record.begin(cancelled);
                    record.call();
                });
                self.record.cancel(cancelled);
                let _ = other.queue(queue);
                self.put(queue, || ());
                other.cancel();
                work.flush().map_err(|error| error.to_string())?;
                other.flush().map_err(|error| error.to_string())?;
                discard((work, other));
            }
            self.settle()?;
        }
        Ok(())
    }

    fn scopes(&self) -> Result<(), String> {
        let runtime = self.runtime(4, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder)?;
        for _ in self.rounds() {
            let record = self.record;
            let seen = AtomicU32::new(0);
            let scoped = || {
                queue.scope(|scope| {
                    for _ in 0..3 {
                        let item = record.offer();
                        let (queue, seen) = (&queue, &seen);
                        let answer = scope.queue(move || {
                            let _running = record.begin(item);
                            let _owned = Owned(Arc::clone(record));
                            record.call();
                            queue.scope(|scope| {
                                let item = record.offer();
                                let answer = scope.queue(move || {
                                    let _running = record.begin(item);
                                    seen.fetch_add(1, SeqCst);
                                    P::sleep(us(20));
                                    record.call();
                                });
                                record.answer(item, answer.is_ok());
                            });
                        });
                        record.answer(item, answer.is_ok());
                    }
                });
            };
            discard(user::call(scoped));
            if record.unfinished() > 0 {
                return Err("a scope returned before its items were over".to_owned());
            }
        }
        Ok(())
    }

    fn forks(&self) -> Result<(), String> {
        let runtime = self.runtime(4, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder.scope(Scope::Cache))?;
        for _ in self.rounds() {
            let record = self.record;
            let leaves: Vec<_> = (0..16).map(|_| AtomicU32::new(0)).collect();
            let tree = user::call(|| queue.install(|| tree::<P>(record, &leaves)));
            let whole = matches!(&tree, Ok(Ok(())));
            discard(tree);
            let mut numbers = [0_u32; 24];
            let each = |number: &mut u32| {
                *number += 1;
                record.call();
                (0..30).for_each(|_| P::spin_hint());
            };
            let done = user::call(|| queue.for_each_mut(&mut numbers, each).is_ok());
            let all = matches!(done, Ok(true));
            discard(done);
            let visits = leaves.iter().map(|leaf| leaf.load(SeqCst));
            if visits.clone().any(|visits| visits > 1 || (whole && visits != 1)) {
                return Err(format!("leaves were visited {:?} times", visits.collect::<Vec<_>>()));
            }
            if numbers.iter().any(|number| *number > 1 || (all && *number != 1)) {
                return Err(format!("elements were visited {numbers:?} times"));
            }
        }
        Ok(())
    }

    fn freeze(&self) -> Result<(), String> {
        let runtime = self.runtime(4, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder.scope(Scope::Cache))?;
        for _ in self.rounds() {
            self.put(&queue, || P::sleep(us(100)));
            self.record.hold(true);
            self.until_done("a freeze", || queue.freeze())?;
            (0..3).for_each(|_| self.put(&queue, || P::sleep(us(20))));
            P::sleep(us(300));
            self.until_done("a thaw", || queue.thaw())?;
            self.record.hold(false);
            self.put(&queue, || ());
            self.settle()?;
        }
        Ok(())
    }

    fn change(&self) -> Result<(), String> {
        let runtime = self.runtime(8, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder)?;
        for round in self.rounds() {
            self.put(&queue, || P::sleep(us(100)));
            self.put(&queue, || blocking::<P, _>(|| P::sleep(us(400))));
            let change = || match round % 4 {
                0 => queue.change().scope(Scope::Cpu),
                1 => queue.change().cpu_mask(self.cpus(2)),
                2 => queue.change().max_active(1),
                _ => queue.change().scope(Scope::System).cpu_mask(None).max_active(None),
            };
            self.until_done("a change", || change().apply())?;
            (0..3).for_each(|_| self.put(&queue, || P::sleep(us(30))));
            let inside = queue.clone();
            self.put(&queue, move || {
                // Inside an item, it may be refused, and then all is as it was.
                let _ = inside.change().max_active(2).apply();
                discard(inside);
            });
            self.settle()?;
        }
        Ok(())
    }

    fn usable(&self) -> Result<(), String> {
        let runtime = self.runtime(4, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder.scope(Scope::Smt))?;
        for round in self.rounds() {
            (0..3).for_each(|_| self.put(&queue, || P::sleep(us(60))));
            let cpus = self.cpus(if round % 2 == 0 { 1 } else { 4 });
            self.until_done("a set of CPUs", || runtime.set_usable(cpus.clone()))?;
            (0..3).for_each(|_| self.put(&queue, || blocking::<P, _>(|| P::sleep(us(60)))));
            self.settle()?;
        }
        Ok(())
    }

    fn drops(&self) -> Result<(), String> {
        for round in self.rounds() {
            let runtime = self.runtime(2, |builder| builder)?;
            let queue = self.queue(&runtime, |builder| builder)?;
            self.put(&queue, || P::sleep(us(50)));
            self.put(&queue, || blocking::<P, _>(|| P::sleep(us(300))));
            let other = self.queue(&runtime, |builder| builder.strict(round % 2 == 0))?;
            self.put(&other, || ());
            let inside = queue.clone();
            // The last handle may go inside an item of the queue.
            self.put(&queue, move || {
                P::sleep(us(400));
                discard(inside);
            });
            let kept = other.clone();
            let delayed = Work::<P>::new(move |_| discard(kept.name()));
            let _ = delayed.queue_after(&other, us(200));
            discard(queue);
            discard(delayed);
            discard(other);
            discard(runtime);
            self.settle()?;
        }
        Ok(())
    }

    fn tasks(&self) -> Result<(), String> {
        let runtime = self.runtime(2, |builder| builder)?;
        let queue = self.queue(&runtime, |builder| builder)?;
        for _ in self.rounds() {
            let mut tasks = Vec::new();
            for _ in 0..3 {
                let item = self.record.offer();
                let (record, sleep) = (Arc::clone(self.record), runtime.sleep(us(150)));
                let owned = Owned(Arc::clone(self.record));
                let task = queue.spawn(async move {
                    let _running = record.begin(item);
                    let _owned = owned;
                    record.call();
                    if let Ok(sleep) = sleep {
                        sleep.await;
                    }
                    yield_now().await;
                    record.call();
                });
                self.record.answer(item, task.is_ok());
                tasks.extend(user::call(|| task.ok()).ok().flatten());
            }
            let item = self.record.offer();
            self.record.cancel(item);
            let record = Arc::clone(self.record);
            let waits = runtime.sleep(us(5_000));
            let cancelled = queue.spawn(async move {
                let _running = record.begin(item);
                let _owned = Owned(Arc::clone(&record));
                if let Ok(waits) = waits {
                    waits.await;
                }
            });
            P::sleep(us(60));
            discard(cancelled);
            if let Some(task) = tasks.pop() {
                discard(user::call(|| task.detach()));
            }
            self.settle()?;
            discard(tasks);
        }
        Ok(())
    }
}

/// The closure of an item: it owns something with a destructor, and may panic.
fn item_of(
    record: &Arc<Record>,
    item: super::record::Number,
    work: impl FnOnce() + Send + 'static,
) -> impl FnOnce() + Send + 'static {
    let (record, owned) = (Arc::clone(record), Owned(Arc::clone(record)));
    move || {
        let _owned = owned;
        let _running = record.begin(item);
        record.call();
        work();
    }
}

fn put<P: Platform>(
    record: &Arc<Record>,
    queue: &Workqueue<P>,
    work: impl FnOnce() + Send + 'static,
) {
    let item = record.offer();
    let answer = queue.queue(item_of(record, item, work));
    record.answer(item, answer.is_ok());
    discard(answer);
}

/// Visits each leaf.
fn tree<P: Platform>(record: &Arc<Record>, leaves: &[AtomicU32]) {
    match leaves {
        [] => {}
        [leaf] => {
            leaf.fetch_add(1, SeqCst);
            record.call();
            (0..40).for_each(|_| P::spin_hint());
        }
        leaves => {
            let (left, right) = leaves.split_at(leaves.len() / 2);
            join::<P, _, _>(|| tree::<P>(record, left), || tree::<P>(record, right));
        }
    }
}

#[cfg(test)]
mod tests {
    use coreshard_platform::Host;

    use super::*;

    #[test]
    fn what_the_host_runs_keeps_its_promises() {
        let topology = Topology::host().unwrap();
        for scenario in Scenario::ALL {
            for seed in 0..2 {
                let record = Arc::new(Record::new(0..0));
                let trial = ScenarioTrial::new(scenario, 2, seed, &topology);
                let done = trial.run::<Host>(&record);
                done.unwrap_or_else(|broken| panic!("{scenario}: {broken}"));
            }
        }
    }

    #[test]
    fn scenarios_are_read_as_they_are_written() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.to_string().parse(), Ok(scenario));
        }
        let error = "blokcing".parse::<Scenario>().unwrap_err().to_string();
        assert!(error.contains("\"blokcing\"") && error.contains("blocking, one-cpu"), "{error}");
    }
}

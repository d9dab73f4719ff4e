//! Common parts of the programs of a sweep: a machine, a record, and retries while calls fail.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::{Platform, user};
use coreshard_topology::{CpuSet, Scope, Topology};
use coreshard_workqueue::{Builder, Intake, Runtime, RuntimeBuilder, Wake, Work, Workqueue};

use super::record::{Number, Owned, Record};

/// How often, and how long, a refused call is retried.
const TRIES: usize = 60;
const TRY_EVERY: Duration = Duration::from_millis(2);

/// How long a round may take until all accepted items have finished.
const SETTLES: usize = 1_000;
const LOOK_EVERY: Duration = Duration::from_micros(500);

pub(super) const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Drops a value that may have a user's destructor, inside a net.
pub(super) fn discard<T>(value: T) {
    drop(user::discard(value));
}

/// The environment of a program.
pub(super) struct Stage<'run, P: Platform> {
    topology: &'run Topology,
    rounds: usize,
    wake: Wake,
    intake: Intake,
    record: &'run Arc<Record>,
    platform: PhantomData<P>,
}

impl<'run, P: Platform> Stage<'run, P> {
    pub(super) fn new(
        topology: &'run Topology,
        rounds: usize,
        (wake, intake): (Wake, Intake),
        record: &'run Arc<Record>,
    ) -> Self {
        Self { topology, rounds, wake, intake, record, platform: PhantomData }
    }

    pub(super) fn record(&self) -> &'run Arc<Record> {
        self.record
    }

    /// Returns the first CPUs of the machine.
    pub(super) fn cpus(&self, count: usize) -> CpuSet {
        self.topology.online().iter().take(count).collect()
    }

    pub(super) fn runtime(
        &self,
        cpus: usize,
        set: impl FnOnce(RuntimeBuilder<P>) -> RuntimeBuilder<P>,
    ) -> Result<Runtime<P>, String> {
        let builder = Runtime::<P>::builder(self.topology.clone())
            .usable(self.cpus(cpus))
            .idle_timeout(us(300));
        set(builder).build().map_err(|error| format!("no runtime: {error}"))
    }

    /// Creates a queue, retrying until it succeeds.
    pub(super) fn queue(
        &self,
        runtime: &Runtime<P>,
        set: impl Fn(Builder<'_, P>) -> Builder<'_, P>,
    ) -> Result<Workqueue<P>, String> {
        self.until_done("a queue", || {
            let builder =
                runtime.workqueue().intake(self.intake).wake(self.wake).scope(Scope::System);
            set(builder).build()
        })
    }

    /// Retries a call that may be refused while something fails.
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
                Err(error) => return Err(format!("{what} is unavailable: {error}")),
            }
        }
    }

    /// Waits until all accepted items have finished. Wakes no worker.
    pub(super) fn settle(&self) -> Result<(), String> {
        let settled = self.wait_until("items", || self.record.unfinished() == 0);
        settled.map_err(|_| format!("{} accepted items do not finish", self.record.unfinished()))
    }

    /// Waits until `holds` returns true, for as long as items may take.
    pub(super) fn wait_until(&self, what: &str, holds: impl Fn() -> bool) -> Result<(), String> {
        for _ in 0..SETTLES {
            if holds() {
                return Ok(());
            }
            P::sleep(LOOK_EVERY);
        }
        Err(format!("{what} does not finish"))
    }

    /// Returns how workers are woken, and how items enter a pool.
    pub(super) fn variants(&self) -> (Wake, Intake) {
        (self.wake, self.intake)
    }

    /// Queues an item.
    pub(super) fn put(&self, queue: &Workqueue<P>, work: impl FnOnce() + Send + 'static) {
        put(self.record, queue, work);
    }

    pub(super) fn rounds(&self) -> std::ops::Range<usize> {
        0..self.rounds
    }

    /// Creates a reusable item that begins as this one.
    pub(super) fn work(&self, item: Number) -> Work<P> {
        let record = Arc::clone(self.record);
        Work::new(move |_| {
            let _running = record.begin(item);
            record.call();
        })
    }
}

/// Creates the closure of an item: it owns a value with a destructor, and may panic.
pub(super) fn item_of(
    record: &Arc<Record>,
    item: Number,
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

pub(super) fn put<P: Platform>(
    record: &Arc<Record>,
    queue: &Workqueue<P>,
    work: impl FnOnce() + Send + 'static,
) {
    let item = record.offer();
    let answer = queue.queue(item_of(record, item, work));
    record.answer(item, answer.is_ok());
    discard(answer);
}

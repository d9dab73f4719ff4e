//! The pools that executors share. A pool has a limit of workers. If blocking calls of one executor occupied all of
//! them, blocking calls of others could not start. A full pool therefore takes no more runners, and another pool is
//! made.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard::{PerProcess, Refused, Scope, Workqueue};
use pyo3::prelude::*;

use crate::process::{lock, runtime_error};
use crate::threads;

/// The kind of an executor's calls.
#[derive(Clone, Copy)]
pub(crate) enum Calls {
    /// Calls that may block at any time without saying so: this many must be able to run at once.
    Wait { at_once: usize },
    /// Computing calls: as many workers run as there are CPUs.
    Compute,
}

/// Limits of a pool's running workers. The upper one is the library's, which includes blocked ones.
const LEAST_WORKERS: usize = 8;
const MOST_WORKERS: usize = 512;

/// The properties that distinguish pools.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// The number of running workers; `None` if the machine's CPUs decide.
    workers: Option<usize>,
    stack_bytes: usize,
}

/// A pool, which lives as long as its process.
pub(crate) struct Pool {
    kind: Kind,
    queue: Workqueue,
    /// Runners that are queued or run.
    runners: AtomicUsize,
}

static POOLS: PerProcess<Mutex<Vec<Arc<Pool>>>> = PerProcess::new();

impl Pool {
    /// Returns a pool for such calls.
    pub(crate) fn of(calls: Calls, stack_bytes: usize) -> PyResult<Arc<Self>> {
        let workers = match calls {
            Calls::Compute => None,
            // There are few kinds of pools. If blocked calls occupy all workers and another call wants to start, the
            // pool's monitor detects it and starts one more worker.
            Calls::Wait { at_once } => {
                Some(at_once.clamp(LEAST_WORKERS, MOST_WORKERS).next_power_of_two())
            }
        };
        Self::found(Kind { workers, stack_bytes }, |_| true)
    }

    /// Runs `runner` on a worker of this pool, or of another equal pool if this one is full.
    pub(crate) fn run(
        self: &Arc<Self>,
        py: Python<'_>,
        runner: impl FnOnce() + Send + 'static,
    ) -> Result<(), Refused> {
        let place = self.place().unwrap_or_else(|| {
            let another = || {
                let mut place = None;
                let has_place = |pool: &Arc<Self>| {
                    place = pool.place();
                    place.is_some()
                };
                let made = Self::found(self.kind, has_place);
                // If another one cannot be made, it waits for a worker of this one.
                place.unwrap_or_else(|| Place::on(made.as_ref().unwrap_or(self)))
            };
            crate::waiting::without_lock(py, another)
        });
        let pool = Arc::clone(&place.0);
        let queued = pool.queue.queue(move || {
            let _place = place;
            runner();
        });
        queued.map_err(Refused::without_item)
    }

    /// Returns a free worker, if there is one.
    fn place(self: &Arc<Self>) -> Option<Place> {
        let is_bounded = self.kind.workers.is_some();
        let place = Place::on(self);
        (!is_bounded || self.runners.load(Relaxed) <= MOST_WORKERS).then_some(place)
    }

    /// Returns a pool of that kind that is `fit`, or a new one.
    fn found(kind: Kind, mut fit: impl FnMut(&Arc<Self>) -> bool) -> PyResult<Arc<Self>> {
        let mut pools = lock(POOLS.here());
        let found = pools.iter().filter(|pool| pool.kind == kind).find(|pool| fit(pool));
        if let Some(pool) = found {
            return Ok(Arc::clone(pool));
        }
        let pool = Arc::new(Self { kind, queue: queue_of(kind)?, runners: AtomicUsize::new(0) });
        pools.push(Arc::clone(&pool));
        Ok(pool)
    }
}

/// Counts a runner of a pool.
struct Place(Arc<Pool>);

impl Place {
    fn on(pool: &Arc<Pool>) -> Self {
        pool.runners.fetch_add(1, Relaxed);
        Self(Arc::clone(pool))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.runners.fetch_sub(1, Relaxed);
    }
}

fn queue_of(kind: Kind) -> PyResult<Workqueue> {
    let runtime = match kind.workers {
        None => coreshard::runtime().map_err(runtime_error)?,
        Some(workers) => {
            let builder = coreshard::runtime_builder().map_err(runtime_error)?;
            // Long calls are normal here.
            let builder = builder.workers(workers).cpu_intensive_threshold(Duration::ZERO);
            // Never freed: its workers serve the process to its end.
            Box::leak(Box::new(builder.build().map_err(runtime_error)?))
        }
    };
    let builder = threads::for_python(runtime.workqueue().name("python"), kind.stack_bytes);
    let builder = if kind.workers.is_some() { builder.scope(Scope::System) } else { builder };
    builder.build().map_err(runtime_error)
}

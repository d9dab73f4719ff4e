//! The pools that executors share, and who is on them. A pool has a bound of workers, and calls that wait on all of them would keep
//! other executors' from beginning: so one that is full takes no more, and another one is made.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard::{PerProcess, Refused, Scope, Workqueue};
use pyo3::prelude::*;

use crate::process::{lock, runtime_error};
use crate::threads;

/// What an executor's calls do.
#[derive(Clone, Copy)]
pub(crate) enum Calls {
    /// Calls that may wait at any time, and do not say so: so many are to be in progress at once.
    Wait { at_once: usize },
    /// Calls that compute: as many workers run as there are CPUs.
    Compute,
}

/// Bounds of a pool's workers that run at once; the upper one is the library's, also of those that are blocked.
const LEAST_WORKERS: usize = 8;
const MOST_WORKERS: usize = 512;

/// What sets pools apart.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// That run at once; where the machine's CPUs decide, none.
    workers: Option<usize>,
    stack_bytes: usize,
}

/// A pool, for as long as its process lives.
pub(crate) struct Pool {
    kind: Kind,
    queue: Workqueue,
    /// Those that are queued or run.
    runners: AtomicUsize,
}

static POOLS: PerProcess<Mutex<Vec<Arc<Pool>>>> = PerProcess::new();

impl Pool {
    /// One for such calls.
    pub(crate) fn of(calls: Calls, stack_bytes: usize) -> PyResult<Arc<Self>> {
        let workers = match calls {
            Calls::Compute => None,
            // Few kinds of pools. Where one has waiting calls on all workers, and another one would begin a call, the pool's
            // monitor finds out and lets one more worker run.
            Calls::Wait { at_once } => {
                Some(at_once.clamp(LEAST_WORKERS, MOST_WORKERS).next_power_of_two())
            }
        };
        Self::found(Kind { workers, stack_bytes }, |_| true)
    }

    /// Runs `runner` on a worker: of this pool, or where all of its are taken, of another one of its kind.
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
                // Where there cannot be one more, it waits for a worker of this one.
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

    /// A free worker, if there is one.
    fn place(self: &Arc<Self>) -> Option<Place> {
        let is_bounded = self.kind.workers.is_some();
        let place = Place::on(self);
        (!is_bounded || self.runners.load(Relaxed) <= MOST_WORKERS).then_some(place)
    }

    /// A pool of that kind that is `fit`, or a new one.
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
            // A long call is no news here.
            let builder = builder.workers(workers).cpu_intensive_threshold(Duration::ZERO);
            // Never freed: its workers serve the process to its end.
            Box::leak(Box::new(builder.build().map_err(runtime_error)?))
        }
    };
    let builder = threads::for_python(runtime.workqueue().name("python"), kind.stack_bytes);
    let builder = if kind.workers.is_some() { builder.scope(Scope::System) } else { builder };
    builder.build().map_err(runtime_error)
}

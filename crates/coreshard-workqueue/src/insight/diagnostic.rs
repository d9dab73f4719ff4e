//! Conditions that no call can return as an error: a CPU hog, a pool that makes no progress, a worker that cannot be started,
//! a bug in Coreshard. Reported through `tracing`, and to the runtime's
//! [`on_diagnostic`](crate::RuntimeBuilder::on_diagnostic).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::user::{self, Thrown, User};
use coreshard_topology::{PodId, Scope};

use crate::insight::stats::PoolStats;

/// A condition that needs an operator's attention.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Diagnostic {
    /// An item used a CPU for long while others waited.
    CpuHog(CpuHog),
    /// A pool has waiting items and begins none.
    Stall(Stall),
    /// A pool needs one more worker and cannot start it.
    NoWorker(NoWorker),
    /// The state of a pool is inconsistent: a bug in Coreshard.
    Bug(Bug),
}

/// An item that used a CPU for longer than
/// [`cpu_intensive_threshold`](crate::RuntimeBuilder::cpu_intensive_threshold) while others waited.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CpuHog {
    /// The pod whose pool it was in.
    pub pod: PodId,
    /// The type name of the item's function.
    pub function: &'static str,
    /// CPU time that it had used when it was detected.
    pub cpu_time: Duration,
    /// How often items with this function were detected; reported at 1, 2, 4, 8 and so on.
    pub times: u64,
}

/// A pool that had waiting items, and began none, for
/// [`stall_after`](crate::RuntimeBuilder::stall_after).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The pool's pod.
    pub pod: PodId,
    /// How long it has begun nothing.
    pub stalled_for: Duration,
    /// All pools of the runtime.
    pub pools: Vec<PoolReport>,
}

/// A snapshot of a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolReport {
    /// Which CPUs share a pool here.
    pub scope: Scope,
    /// Its counts.
    pub stats: PoolStats,
    /// True if an item waits.
    pub has_waiting_items: bool,
    /// Items that its workers are inside of.
    pub running: Vec<RunningItem>,
}

/// An item that a worker is inside of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningItem {
    /// The worker's number in its pool, as in its thread's name.
    pub worker: usize,
    /// The type name of the item's function.
    pub function: &'static str,
    /// Time since the monitor first saw it: it may have begun some milliseconds before.
    pub for_at_least: Duration,
    /// The worker declared that it blocks, or was found waiting, or is a CPU hog.
    pub is_blocked: bool,
}

/// A worker that a pool needs, and that cannot be started now. The start is retried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NoWorker {
    /// The pool's pod.
    pub pod: PodId,
    /// The reason.
    pub reason: String,
}

/// An invariant of a pool's workers was found broken: a bug in Coreshard; please report it. If work might have waited for
/// ever, a worker was woken for it. Reported at 1, 2, 4, 8 and so on times per pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bug {
    /// The pool's pod.
    pub pod: PodId,
    /// The broken invariant.
    pub rule: &'static str,
    /// The recorded state of the pool's workers, for the investigation.
    pub books: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuHog(hog) => hog.fmt(f),
            Self::Stall(stall) => stall.fmt(f),
            Self::NoWorker(no_worker) => no_worker.fmt(f),
            Self::Bug(bug) => bug.fmt(f),
        }
    }
}

impl fmt::Display for CpuHog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pod {}: {} hogged a CPU for {:?} while other items waited (seen {} times); divide \
             its work, or give it a separate queue",
            self.pod, self.function, self.cpu_time, self.times
        )
    }
}

impl fmt::Display for NoWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {} is short of a worker: {}", self.pod, self.reason)
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pod {}: an invariant of its pool is violated, which is a bug in Coreshard; please report \
             it: {} ({})",
            self.pod, self.rule, self.books
        )
    }
}

impl fmt::Display for Stall {
    /// The stalled pool, then one line per pool and one per running item.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pod {} has waiting items and has begun none for {:?}",
            self.pod, self.stalled_for
        )?;
        for pool in &self.pools {
            let PoolReport { scope, stats, has_waiting_items, running } = pool;
            write!(
                f,
                "\n  {scope} pod {} (CPUs {}): {} workers, {} idle, {} blocked, limit {}{}",
                stats.pod,
                stats.cpus,
                stats.workers,
                stats.idle_workers,
                stats.blocked_workers,
                stats.worker_limit,
                if *has_waiting_items { ", items wait" } else { "" },
            )?;
            for item in running {
                let blocked = if item.is_blocked { ", blocked" } else { "" };
                write!(
                    f,
                    "\n    worker {}: {} for {:?}{blocked}",
                    item.worker, item.function, item.for_at_least
                )?;
            }
        }
        Ok(())
    }
}

/// Emits a `tracing` event. The subscriber is user code.
#[cold]
pub(crate) fn say(event: impl FnOnce()) {
    drop(user::call(event));
}

/// Emits a `tracing` event for a panic that is reported nowhere else.
pub(crate) fn say_panic(outcome: Result<(), Thrown>, what: &str) {
    if let Err(thrown) = outcome {
        let panic = thrown.message().unwrap_or("(something that is not a text)");
        say(|| tracing::error!(panic, "{what}"));
    }
}

pub(crate) type DiagnosticHandler = Arc<User<dyn Fn(&Diagnostic) + Send + Sync>>;

/// The monitor's thresholds, and the handlers of its reports.
#[derive(Clone)]
pub(crate) struct Watchdog {
    /// `None` for never.
    pub(crate) cpu_intensive: Option<Duration>,
    /// `None` for never.
    pub(crate) stall_after: Option<Duration>,
    pub(crate) on_diagnostic: Option<DiagnosticHandler>,
}

impl Default for Watchdog {
    fn default() -> Self {
        Self {
            cpu_intensive: Some(Duration::from_millis(10)),
            stall_after: Some(Duration::from_secs(30)),
            on_diagnostic: None,
        }
    }
}

impl Watchdog {
    /// Calls the handlers, which are user code, on a thread that no other thread depends on.
    pub(crate) fn tell(&self, diagnostic: &Diagnostic) {
        say(|| match diagnostic {
            Diagnostic::Stall(_) | Diagnostic::Bug(_) => tracing::error!("{diagnostic}"),
            _ => tracing::warn!("{diagnostic}"),
        });
        let Some(handler) = &self.on_diagnostic else { return };
        // The panic hook has printed a panic of the handler.
        drop(handler.call(|handler| handler(diagnostic)));
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog")
            .field("cpu_intensive", &self.cpu_intensive)
            .field("stall_after", &self.stall_after)
            .field("on_diagnostic", &self.on_diagnostic.is_some())
            .finish()
    }
}

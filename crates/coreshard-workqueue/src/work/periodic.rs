//! Work at a fixed rate.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{AtomicInt, Host, Platform, Time};

use super::error::{WorkError, WorkErrorKind, WorkErrorReason};
use super::work_core::Work;
use crate::base::target::Target;
use crate::queue::Workqueue;
use crate::timers::Timers;

/// What becomes of the ticks whose time comes while an earlier one still runs, or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MissedTick {
    /// They run one after the other as soon as they can, until the rate is caught up with.
    Burst,
    /// They are skipped (and counted), and the next tick comes when it would have come anyway.
    #[default]
    Skip,
    /// The next tick comes one period after the end of the late one, and the later ones follow it.
    Delay,
}

/// Work that is queued again and again at a fixed rate, until this is dropped or stopped.
///
/// The first tick comes one period after the start. A tick never runs beside another one. A
/// function that panics goes on with the next tick.
#[must_use = "dropping it stops the work"]
pub struct Periodic<P: Platform = Host> {
    work: Work<P>,
    skipped: Arc<P::AtomicU64>,
}

/// What the item keeps between two ticks.
struct Rate<P: Platform> {
    /// When the tick that runs, or comes next, was to come.
    due: Time,
    period: Duration,
    missed: MissedTick,
    queue: Workqueue<P>,
    skipped: Arc<P::AtomicU64>,
}

impl<P: Platform> Rate<P> {
    /// The tick that ran is over at `now`: when does the next one come? True if at once.
    fn advance(&mut self, now: Time) -> bool {
        let next = self.due + self.period;
        self.due = match self.missed {
            MissedTick::Delay => now + self.period,
            MissedTick::Burst => next,
            MissedTick::Skip if next > now => next,
            MissedTick::Skip => {
                let period_ns = (next - self.due).as_nanos().max(1) as u64;
                let passed = now.ns_since(self.due) / period_ns;
                self.skipped.fetch_add(passed, Relaxed);
                self.due + Duration::from_nanos(period_ns.saturating_mul(passed.saturating_add(1)))
            }
        };
        self.due <= now
    }
}

/// Arranges for the next tick, also where this one panicked.
struct NextTick<'tick, P: Platform> {
    rate: &'tick mut Rate<P>,
    work: &'tick Work<P>,
}

impl<P: Platform> Drop for NextTick<'_, P> {
    fn drop(&mut self) {
        let deadline = if self.rate.advance(P::now()) { None } else { Some(self.rate.due) };
        let queue = &self.rate.queue;
        // Disabled where it was stopped; false where somebody queued a tick by hand.
        if let Err(error) = self.work.queue_at(queue, Target::Here, deadline)
            && error.reason() != WorkErrorReason::Disabled
        {
            tracing::warn!(queue = queue.name(), %error, "periodic work ends");
        }
    }
}

impl<P: Platform> Periodic<P> {
    /// Calls `function` on `queue` every `period`.
    ///
    /// # Errors
    /// Where the period is zero or longer than the clock goes, or no timekeeper can be had.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use coreshard::{MissedTick, Periodic};
    ///
    /// let queue = coreshard::workqueue()?.name("beats").build()?;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let beat = Periodic::start(&queue, Duration::from_millis(2), MissedTick::Skip, move || {
    ///     drop(tell.send("a beat"));
    /// })?;
    /// assert_eq!((told.recv()?, told.recv()?), ("a beat", "a beat"));
    /// drop(beat); // no further tick begins
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("interval", "cron"))]
    #[track_caller]
    pub fn start<F>(
        queue: &Workqueue<P>,
        period: Duration,
        missed: MissedTick,
        mut function: F,
    ) -> Result<Self, WorkError>
    where
        F: FnMut() + Send + 'static,
    {
        let name = std::any::type_name::<F>();
        if period.is_zero() {
            return Err(WorkError::new(name, WorkErrorKind::PeriodZero));
        }
        let due = Timers::<P>::deadline(period)
            .map_err(|error| WorkError::new(name, WorkErrorKind::Timer(error)))?;
        let skipped = Arc::new(P::AtomicU64::new(0));
        let queue = queue.clone();
        let mut rate =
            Rate { due, period, missed, queue: queue.clone(), skipped: Arc::clone(&skipped) };
        let work = Work::new(move |work: &Work<P>| {
            let _next = NextTick { rate: &mut rate, work };
            function();
        });
        work.queue_after(&queue, period)?;
        Ok(Self { work, skipped })
    }

    /// No further tick begins. One that runs is not waited for.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use coreshard::{MissedTick, Periodic};
    ///
    /// let queue = coreshard::workqueue()?.name("beats").build()?;
    /// let beat = Periodic::start(&queue, Duration::from_secs(1), MissedTick::Delay, || ())?;
    /// beat.stop();
    /// assert!(!beat.work().is_pending());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) {
        // Beyond the deepest nesting it is stopped already.
        let _ = self.work.disable();
    }

    /// As [`stop`](Self::stop), and waits until none runs.
    ///
    /// # Errors
    /// Where a tick calls it: then nothing is stopped.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use coreshard::{MissedTick, Periodic};
    ///
    /// let queue = coreshard::workqueue()?.name("beats").build()?;
    /// let beat = Periodic::start(&queue, Duration::from_millis(1), MissedTick::Delay, || ())?;
    /// beat.stop_and_wait()?;
    /// assert!(!beat.work().is_running());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_and_wait(&self) -> Result<(), WorkError> {
        self.work.disable_and_wait().map(drop)
    }

    /// Ticks that were skipped, see [`MissedTick::Skip`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use coreshard::{MissedTick, Periodic};
    ///
    /// let queue = coreshard::workqueue()?.name("beats").build()?;
    /// let beat = Periodic::start(&queue, Duration::from_secs(60), MissedTick::Skip, || ())?;
    /// assert_eq!(beat.skipped_ticks(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn skipped_ticks(&self) -> u64 {
        self.skipped.load(Relaxed)
    }

    /// The item that runs at each tick: it can be flushed, or queued out of turn.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use coreshard::{MissedTick, Periodic};
    ///
    /// let queue = coreshard::workqueue()?.name("beats").build()?;
    /// let tick = || println!("a beat");
    /// let beat = Periodic::start(&queue, Duration::from_secs(3600), MissedTick::Delay, tick)?;
    /// assert!(beat.work().flush()?, "the next tick was brought forward");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn work(&self) -> &Work<P> {
        &self.work
    }
}

impl<P: Platform> Drop for Periodic<P> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<P: Platform> fmt::Debug for Periodic<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Periodic")
            .field("work", &self.work)
            .field("skipped_ticks", &self.skipped_ticks())
            .finish()
    }
}

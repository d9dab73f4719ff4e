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

/// The treatment of ticks that become due while an earlier one still runs or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MissedTick {
    /// They run one after the other as soon as possible, until the rate is caught up with.
    Burst,
    /// They are skipped (and counted), and the next tick keeps its original time.
    #[default]
    Skip,
    /// The next tick becomes due one period after the end of the late one, and later ticks follow it.
    Delay,
}

/// Work that is queued at a fixed rate, until this handle is dropped or stopped.
///
/// The first tick becomes due one period after the start. Two ticks never run at once. If the function panics, the next tick
/// still runs.
#[must_use = "dropping it stops the work"]
pub struct Periodic<P: Platform = Host> {
    work: Work<P>,
    skipped: Arc<P::AtomicU64>,
}

/// The item's state between two ticks.
struct Rate<P: Platform> {
    /// When the tick that is running, or comes next, is due.
    due: Time,
    period: Duration,
    missed: MissedTick,
    queue: Workqueue<P>,
    skipped: Arc<P::AtomicU64>,
}

impl<P: Platform> Rate<P> {
    /// Computes when the next tick is due, after one has ended at `now`. Returns true if it is due at once.
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

/// Arranges for the next tick on drop, also if this one panicked.
struct NextTick<'tick, P: Platform> {
    rate: &'tick mut Rate<P>,
    work: &'tick Work<P>,
}

impl<P: Platform> Drop for NextTick<'_, P> {
    fn drop(&mut self) {
        let deadline = if self.rate.advance(P::now()) { None } else { Some(self.rate.due) };
        let queue = &self.rate.queue;
        // Disabled if it was stopped; false if a caller queued a tick directly.
        if let Err(error) = self.work.queue_at(queue, Target::Here, deadline)
            && error.reason() != WorkErrorReason::Disabled
        {
            tracing::warn!(queue = queue.name(), %error, "periodic work ends");
        }
    }
}

impl<P: Platform> Periodic<P> {
    /// Starts calling `function` on `queue` every `period`.
    ///
    /// # Errors
    /// Fails if the period is zero or exceeds the clock's range, or no timekeeper thread can be started.
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

    /// Stops the work: no further tick begins. Does not wait for one that is running.
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
        // At the maximum nesting it is stopped already.
        let _ = self.work.disable();
    }

    /// Stops the work like [`stop`](Self::stop), and waits until no tick is running.
    ///
    /// # Errors
    /// Fails if a tick calls it; the work is then not stopped.
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

    /// Returns how many ticks were skipped; see [`MissedTick::Skip`].
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

    /// Returns the item that runs at each tick. It can be flushed, or queued at other times.
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

//! How far it is, on a terminal.
//!
//! The bar stands on standard error, and only if that is a terminal and standard output is not: where the
//! digests scroll by, they are the progress. How many files there are is counted by an item on the same
//! workqueue while the first ones are hashed; until it is known there is no bar but figures.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use coreshard::Workqueue;
use indicatif::{HumanBytes, ProgressBar, ProgressState, ProgressStyle};

use crate::digest::Reading;
use crate::walk::{self, Order};

/// The bar, or nothing where nobody watches.
pub(crate) struct Progress {
    bar: ProgressBar,
    reading: Arc<Reading>,
}

impl Progress {
    /// Shows the bar, if somebody watches, and begins to count the files below `folder`.
    pub(crate) fn begin(queue: &Workqueue, folder: &Path) -> anyhow::Result<Self> {
        let mut progress = Self { bar: ProgressBar::hidden(), reading: Arc::default() };
        if !io::stderr().is_terminal() || io::stdout().is_terminal() {
            return Ok(progress);
        }
        progress.bar = ProgressBar::new_spinner()
            .with_style(progress.style("{spinner} {human_pos} files, {read}")?);
        progress.bar.enable_steady_tick(Duration::from_millis(120));
        let counted = progress
            .style("{bar:40} {human_pos}/{human_len} files, {read}, {eta} left")?
            .progress_chars("━╸─");
        let (reading, folder, shown) =
            (Arc::clone(&progress.reading), folder.to_owned(), progress.bar.clone());
        queue
            .queue(move || {
                let go_on = |_: &_| !reading.stop.load(Ordering::Relaxed);
                let files = walk::files(&folder, Order::AsListed).take_while(go_on).count();
                if !reading.stop.load(Ordering::Relaxed) {
                    shown.set_length(files as u64);
                    shown.set_style(counted);
                }
            })
            .map_err(|refused| {
                anyhow::anyhow!("the workqueue refused the count: {:?}", refused.reason())
            })?;
        Ok(progress)
    }

    /// A style in which `{read}` is how much was read.
    fn style(&self, template: &str) -> anyhow::Result<ProgressStyle> {
        let reading = Arc::clone(&self.reading);
        let read = move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
            let _ = write!(text, "{}", HumanBytes(reading.bytes.load(Ordering::Relaxed)));
        };
        let style =
            ProgressStyle::with_template(template).context("the progress bar's template")?;
        Ok(style.with_key("read", read))
    }

    /// What whoever reads a file tells of it.
    pub(crate) fn reading(&self) -> Arc<Reading> {
        Arc::clone(&self.reading)
    }

    /// Counts a file, read or not.
    pub(crate) fn file_done(&self) {
        self.bar.inc(1);
    }

    /// Calls `print` while the bar is off the screen.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

/// Takes the bar off the screen, and tells all who still read or count that nobody waits for them.
impl Drop for Progress {
    fn drop(&mut self) {
        self.reading.stop.store(true, Ordering::Relaxed);
        self.bar.finish_and_clear();
    }
}

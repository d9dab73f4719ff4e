//! The progress, on a terminal.
//!
//! The bar is shown on standard error, and only if that is a terminal and standard output is not: on a
//! terminal, the digests themselves show the progress. An item on the same workqueue counts the files
//! while the first ones are hashed; until the number is known, only figures are shown.

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

/// The bar, or nothing if it is not shown.
pub(crate) struct Progress {
    bar: ProgressBar,
    reading: Arc<Reading>,
}

impl Progress {
    /// Shows the bar, if standard error is a terminal, and begins to count the files below `folder`.
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

    /// A style with `{read}` for the amount that was read.
    fn style(&self, template: &str) -> anyhow::Result<ProgressStyle> {
        let reading = Arc::clone(&self.reading);
        let read = move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
            let _ = write!(text, "{}", HumanBytes(reading.bytes.load(Ordering::Relaxed)));
        };
        let style =
            ProgressStyle::with_template(template).context("the progress bar's template")?;
        Ok(style.with_key("read", read))
    }

    /// The counter and the stop flag for readers of files.
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

/// Removes the bar from the screen, and stops items that still read or count.
impl Drop for Progress {
    fn drop(&mut self) {
        self.reading.stop.store(true, Ordering::Relaxed);
        self.bar.finish_and_clear();
    }
}

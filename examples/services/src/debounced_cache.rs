//! A cache that is written to a file when it has not changed for a while.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use coreshard::{Work, WorkError, Workqueue};

/// Words by words, kept in memory, and in a file that is written when nothing has changed for a while (debounced), or
/// when the oldest change has waited for long enough.
///
/// It only needs one [`Work`]: each change postpones it ([`Work::modify_delay`]), and it never runs on two workers at once.
/// A change allocates only for its words, and no thread waits.
pub struct DebouncedCache {
    shared: Arc<Shared>,
    write: Work,
    queue: Workqueue,
    quiet: Duration,
    at_most: Duration,
}

struct Shared {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    words: BTreeMap<String, String>,
    /// The time of the first change that the file does not have.
    dirty_since: Option<Instant>,
    writes: u64,
    failed: Option<io::Error>,
}

impl DebouncedCache {
    /// Opens a cache with the contents of the file at `path`, if it exists. `queue` writes it when nothing has changed for
    /// `quiet`, and no later than `at_most` after a change.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read.
    pub fn open(
        path: PathBuf,
        queue: Workqueue,
        quiet: Duration,
        at_most: Duration,
    ) -> io::Result<Self> {
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let words = text.lines().filter_map(|line| line.split_once('\t'));
        let words = words.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let state = Mutex::new(State { words, ..State::default() });
        let shared = Arc::new(Shared { path, state });
        // The function owns the contents, not the cache: that would be a cycle.
        let write = Work::new({
            let shared = Arc::clone(&shared);
            move |_work| coreshard::blocking(|| shared.write())
        });
        Ok(Self { shared, write, queue, quiet, at_most })
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        self.shared.lock().words.get(key).cloned()
    }

    /// Changes a value. It is written to the file later.
    ///
    /// # Errors
    /// Fails if the queue accepts no more work. [`close`](Self::close) still writes the change.
    pub fn set(&self, key: String, value: String) -> Result<(), WorkError> {
        let mut state = self.shared.lock();
        state.words.insert(key, value);
        let since = *state.dirty_since.get_or_insert_with(Instant::now);
        drop(state);
        let delay = self.quiet.min(self.at_most.saturating_sub(since.elapsed()));
        self.write.modify_delay(&self.queue, delay).map(drop)
    }

    /// Writes the changes that the file does not have yet. Returns the total number of writes.
    ///
    /// # Errors
    /// Fails if the last write has failed.
    pub fn close(self) -> io::Result<u64> {
        self.write_now();
        let mut state = self.shared.lock();
        state.failed.take().map_or(Ok(state.writes), Err)
    }

    fn write_now(&self) {
        // It only fails inside the work itself, whose function has no cache.
        let _refused = self.write.cancel_and_wait();
        self.shared.write();
    }
}

impl Drop for DebouncedCache {
    /// Writes the remaining changes: otherwise the timer would keep them. [`close`](DebouncedCache::close) reports whether that
    /// has failed.
    fn drop(&mut self) {
        self.write_now();
    }
}

impl Shared {
    /// No thread panics while it is held, and even then the words would be consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes during the write are left for the next one.
    fn write(&self) {
        let mut state = self.lock();
        let Some(since) = state.dirty_since.take() else { return };
        let text: String =
            state.words.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
        drop(state);
        let written = self.replace(&text);
        let mut state = self.lock();
        state.writes += 1;
        if written.is_err() {
            state.dirty_since = Some(since);
        }
        state.failed = written.err();
    }

    /// Replaces the file atomically: a reader finds either the old words or the new ones.
    fn replace(&self, text: &str) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(new, &self.path)
    }
}

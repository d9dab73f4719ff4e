//! A cache that writes itself to a file once it is left alone.

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
/// One [`Work`] is all that there is to it: each change puts its time off ([`Work::modify_delay`]), and it never runs
/// on two workers at once. A change costs no allocation beyond the words', and no thread waits.
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
    /// Since when there is a change that the file does not have.
    dirty_since: Option<Instant>,
    writes: u64,
    failed: Option<io::Error>,
}

impl DebouncedCache {
    /// A cache with what is in the file at `path`, if there is one. It is written by `queue` when nothing has changed for
    /// `quiet`, and no later than `at_most` after a change.
    ///
    /// # Errors
    /// Where the file is there and cannot be read.
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
        // The function owns what it writes, and not the cache: that would never be freed.
        let write = Work::new({
            let shared = Arc::clone(&shared);
            move |_work| coreshard::blocking(|| shared.write())
        });
        Ok(Self { shared, write, queue, quiet, at_most })
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        self.shared.lock().words.get(key).cloned()
    }

    /// Changes a value; the file has it later.
    ///
    /// # Errors
    /// Where the queue takes nothing any more. [`close`](Self::close) writes the change all the same.
    pub fn set(&self, key: String, value: String) -> Result<(), WorkError> {
        let mut state = self.shared.lock();
        state.words.insert(key, value);
        let since = *state.dirty_since.get_or_insert_with(Instant::now);
        drop(state);
        let delay = self.quiet.min(self.at_most.saturating_sub(since.elapsed()));
        self.write.modify_delay(&self.queue, delay).map(drop)
    }

    /// Writes what the file does not have yet; says how often it was written in all.
    ///
    /// # Errors
    /// Where the last write has failed.
    pub fn close(self) -> io::Result<u64> {
        self.write_now();
        let mut state = self.shared.lock();
        state.failed.take().map_or(Ok(state.writes), Err)
    }

    fn write_now(&self) {
        // Only inside the work itself is it refused, whose function has no cache.
        let _refused = self.write.cancel_and_wait();
        self.shared.write();
    }
}

impl Drop for DebouncedCache {
    /// Writes what the file does not have: its timer would hold on to it. [`close`](DebouncedCache::close) tells whether
    /// that has failed.
    fn drop(&mut self) {
        self.write_now();
    }
}

impl Shared {
    /// Nobody panics while it is held; and if so, the words are whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes that come meanwhile are for the next time.
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

    /// Whoever reads the file finds the old words or the new ones, whole.
    fn replace(&self, text: &str) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(new, &self.path)
    }
}

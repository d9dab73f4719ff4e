//! One flush for many records: group commit.

use std::fs::File;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use coreshard::{Work, WorkError, Workqueue};
use tokio::sync::oneshot;

/// Appends records to a file, many at once: records that arrive within a time, or until a batch is full, are written and
/// flushed together. Each is acknowledged when it is on the disk.
///
/// The first record of a batch sets a [`Work`]'s delay, the last one ends it: no thread waits for either. Records that
/// arrive while a batch is written form the next one, since a `Work` never runs on two workers at once.
pub struct BatchWriter {
    shared: Arc<Shared>,
    flush: Work,
    queue: Workqueue,
    most_records: usize,
    longest: Duration,
}

struct Shared {
    batch: Mutex<Batch>,
    /// Held by the one run of the work.
    file: Mutex<File>,
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    waiting: Vec<oneshot::Sender<Acknowledged>>,
    /// Records that were flushed, and how often.
    records: u64,
    flushes: u64,
}

/// The record's number, from 0, or the batch's error.
type Acknowledged = Result<u64, Arc<io::Error>>;

/// Completes with a record's number when the record is on the disk. Dropping it does not cancel the record.
#[must_use = "it reports whether the record was written"]
pub struct Append(oneshot::Receiver<Acknowledged>);

impl Future for Append {
    type Output = io::Result<u64>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut self.0).poll(context).map(|told| match told {
            Ok(acknowledged) => acknowledged.map_err(|error| io::Error::new(error.kind(), error)),
            Err(_gone) => {
                Err(io::Error::other("the writer was dropped before the record was written"))
            }
        })
    }
}

impl BatchWriter {
    /// Appends to `file`, on `queue`. A batch has at most `most_records`, and its first record waits for at most `longest`
    /// (and for the previous batch).
    #[must_use]
    pub fn new(file: File, queue: Workqueue, most_records: usize, longest: Duration) -> Self {
        let batch = Mutex::new(Batch::default());
        let shared = Arc::new(Shared { batch, file: Mutex::new(file) });
        let flush = Work::new({
            let shared = Arc::clone(&shared);
            move |_work| coreshard::blocking(|| shared.flush())
        });
        Self { shared, flush, queue, most_records, longest }
    }

    /// Adds a record to the batch.
    ///
    /// # Errors
    /// Fails if the queue accepts no more work.
    pub fn append(&self, record: &[u8]) -> Result<Append, WorkError> {
        let (acknowledge, acknowledged) = oneshot::channel();
        let mut batch = self.shared.batch();
        batch.bytes.extend_from_slice(record);
        batch.waiting.push(acknowledge);
        let records = batch.waiting.len();
        drop(batch);
        if records == self.most_records {
            self.flush.modify_delay(&self.queue, Duration::ZERO)?;
        } else if records == 1 {
            self.flush.queue_after(&self.queue, self.longest)?;
        }
        Ok(Append(acknowledged))
    }

    /// Writes the waiting records now.
    ///
    /// # Errors
    /// Fails if it is called by the writer's own item, which it would wait for.
    pub fn flush(&self) -> Result<(), WorkError> {
        self.flush.cancel_and_wait()?;
        self.shared.flush();
        Ok(())
    }

    /// Returns the number of records on the disk, and the number of flushes for them.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let batch = self.shared.batch();
        (batch.records, batch.flushes)
    }
}

impl Drop for BatchWriter {
    /// Writes the waiting records: otherwise the timer would keep them.
    fn drop(&mut self) {
        // It only fails inside the work itself, whose function has no writer.
        let _refused = self.flush();
    }
}

impl Shared {
    /// No thread panics while it is held.
    fn batch(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = self.batch();
        let bytes = std::mem::take(&mut batch.bytes);
        let waiting = std::mem::take(&mut batch.waiting);
        let first = batch.records;
        drop(batch);
        if waiting.is_empty() {
            return;
        }
        let written = file.write_all(&bytes).and_then(|()| file.sync_data()).map_err(Arc::new);
        if written.is_ok() {
            let mut batch = self.batch();
            batch.records += waiting.len() as u64;
            batch.flushes += 1;
        }
        drop(file);
        for (number, acknowledge) in (first..).zip(waiting) {
            // The client may have disconnected.
            let _gone = acknowledge.send(written.clone().map(|()| number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waiting clients get the error, and the next batch is tried again.
    #[test]
    fn a_write_that_fails_is_told_to_each() {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "").unwrap();
        // Opened read-only.
        let file = File::open(&path).unwrap();
        let queue = coreshard::workqueue().unwrap().name("log").build().unwrap();
        let writer = BatchWriter::new(file, queue, 2, Duration::from_secs(3600));
        for _ in 0..2 {
            let appended = [writer.append(b"a").unwrap(), writer.append(b"b").unwrap()];
            for append in appended {
                tokio.block_on(append).unwrap_err();
            }
        }
        assert_eq!(writer.counts(), (0, 0));
        let left = writer.append(b"c").unwrap();
        drop(writer);
        assert!(tokio.block_on(left).is_err(), "it was tried at the end");
    }
}

//! One flush for many records: group commit.

use std::fs::File;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use coreshard::{Work, WorkError, Workqueue};
use tokio::sync::oneshot;

/// Appends records to a file, many at once: those that come within a time, or as many as make a batch, are written and
/// flushed together. Each is acknowledged when it is on the disk.
///
/// The first record of a batch sets a [`Work`]'s delay, the last one ends it: no thread waits for either. What comes while
/// a batch is written makes the next one, since a `Work` never runs on two workers at once.
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

/// The record's number, from 0; or what the batch failed with.
type Acknowledged = Result<u64, Arc<io::Error>>;

/// Ends when a record is on the disk, with its number. Dropping it takes nothing back.
#[must_use = "whether the record was written is told here"]
pub struct Append(oneshot::Receiver<Acknowledged>);

impl Future for Append {
    type Output = io::Result<u64>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Pin::new(&mut self.0).poll(context).map(|told| match told {
            Ok(acknowledged) => acknowledged.map_err(|error| io::Error::new(error.kind(), error)),
            Err(_gone) => {
                Err(io::Error::other("the writer is gone, and the record was not written"))
            }
        })
    }
}

impl BatchWriter {
    /// Writes to the end of `file`, by `queue`. A batch has `most_records` at most, of which the first waits for `longest`
    /// at most (and for the batch before).
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
    /// Where the queue takes nothing any more.
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

    /// Writes what waits, now.
    ///
    /// # Errors
    /// Where it is called by the queue's own item that it would wait for.
    pub fn flush(&self) -> Result<(), WorkError> {
        self.flush.cancel_and_wait()?;
        self.shared.flush();
        Ok(())
    }

    /// Records that are on the disk, and how often the file was flushed for them.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let batch = self.shared.batch();
        (batch.records, batch.flushes)
    }
}

impl Drop for BatchWriter {
    /// Writes what waits: its timer would hold on to it.
    fn drop(&mut self) {
        // Only inside the work itself is it refused, whose function has no writer.
        let _refused = self.flush();
    }
}

impl Shared {
    /// Nobody panics while it is held.
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
            // Who asked may have gone.
            let _gone = acknowledge.send(written.clone().map(|()| number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who waits hears why, and the next batch is tried anew.
    #[test]
    fn a_write_that_fails_is_told_to_each() {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "").unwrap();
        // Open to be read alone.
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

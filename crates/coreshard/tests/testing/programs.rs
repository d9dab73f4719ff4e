//! Small programs as users write them: they know nothing of tests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard::testing::simulated::{self, CancellationToken, Work, Workqueue};

/// Values that callers add are written together once no caller has added one for a while.
pub(crate) struct Cache {
    queue: Workqueue,
    changes: Arc<Mutex<Vec<u32>>>,
    flush: Work,
}

impl Cache {
    pub(crate) const QUIET: Duration = Duration::from_millis(100);

    pub(crate) fn new(queue: &Workqueue, mut write: impl FnMut(Vec<u32>) + Send + 'static) -> Self {
        let changes = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&changes);
        let flush = Work::new(move |_work| {
            let changes = std::mem::take(&mut *list.lock().unwrap());
            if !changes.is_empty() {
                write(changes);
            }
        });
        Self { queue: queue.clone(), changes, flush }
    }

    pub(crate) fn add(&self, change: u32) {
        // The lock is held over the queueing, as programs do.
        let mut changes = self.changes.lock().unwrap();
        changes.push(change);
        self.flush.modify_delay(&self.queue, Self::QUIET).unwrap();
    }

    pub(crate) fn flush_now(&self) {
        self.flush.modify_delay(&self.queue, Duration::ZERO).unwrap();
        self.flush.flush().unwrap();
    }
}

/// A server that answers only some of the requests, in virtual time.
pub(crate) struct Server {
    /// How long each answer takes; `None` for none at all.
    delays: Mutex<VecDeque<Option<Duration>>>,
    pub(crate) asked: AtomicU32,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AskError {
    Cancelled,
    GaveUp { tries: u32 },
}

impl Server {
    pub(crate) fn new(delays: impl IntoIterator<Item = Option<Duration>>) -> Arc<Self> {
        Arc::new(Self {
            delays: Mutex::new(delays.into_iter().collect()),
            asked: AtomicU32::new(0),
        })
    }

    async fn answer(&self) -> u32 {
        let number = self.asked.fetch_add(1, SeqCst) + 1;
        let delay = self.delays.lock().unwrap().pop_front().flatten();
        match delay {
            Some(delay) => simulated::runtime().unwrap().sleep(delay).unwrap().await,
            None => std::future::pending().await,
        }
        number
    }
}

/// Asks until there is an answer: each time for a second, and twice as long between two times.
pub(crate) async fn ask(
    server: Arc<Server>,
    tries: u32,
    stop: CancellationToken,
) -> Result<u32, AskError> {
    let mut pause = Duration::from_millis(100);
    let work = async {
        for _ in 0..tries {
            if let Ok(answer) = simulated::timeout(Duration::from_secs(1), server.answer()).await {
                return Ok(answer);
            }
            simulated::runtime().unwrap().sleep(pause).unwrap().await;
            pause *= 2;
        }
        Err(AskError::GaveUp { tries })
    };
    stop.run_until_cancelled(work).await.unwrap_or(Err(AskError::Cancelled))
}

/// Sums squares of numbers. At most `capacity` wait to be squared, and producers of more wait.
pub(crate) fn pipeline(numbers: u64, capacity: usize) -> u64 {
    let squares = simulated::workqueue().unwrap().name("squares").capacity(capacity);
    let squares = squares.build().unwrap();
    let sums = simulated::workqueue().unwrap().name("sums").ordered().build().unwrap();
    let total = Arc::new(Mutex::new(0));
    for number in 1..=numbers {
        let (sums, total) = (sums.clone(), Arc::clone(&total));
        squares
            .queue(move || {
                let square = number * number;
                sums.queue(move || *total.lock().unwrap() += square).unwrap();
            })
            .unwrap();
        assert!(squares.stats().capacity_used <= capacity as u64);
    }
    squares.drain().unwrap();
    sums.drain().unwrap();
    let total = total.lock().unwrap();
    *total
}

/// The longest of `texts`; each of two items checks half of them.
pub(crate) fn longest(queue: &Workqueue, texts: &[&str]) -> usize {
    let (left, right) = texts.split_at(texts.len() / 2);
    let length = |texts: &[&str]| texts.iter().map(|text| text.len()).max().unwrap_or(0);
    queue.scope(|scope| {
        let left = scope.submit(|| length(left)).unwrap();
        let right = scope.submit(|| length(right)).unwrap();
        left.join().unwrap().max(right.join().unwrap())
    })
}

//! A slow iterator that several threads share, as in rayon's `par_bridge`: parts of a join take items from it, one by one under a
//! lock, and fork inside each item.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::pool;
use rayon_core::{current_thread_index, join};

const ITEMS: usize = 300;
const THREADS: usize = 8;

struct Bridge<F> {
    items: Mutex<Box<dyn Iterator<Item = usize> + Send>>,
    /// A thread that already has an item does not take another one on top of it.
    is_inside: [AtomicBool; THREADS],
    map: F,
}

impl<F: Fn(usize) + Sync> Bridge<F> {
    fn new(map: F) -> Self {
        let slow = (0..ITEMS).inspect(|_| std::thread::sleep(Duration::from_millis(1)));
        let is_inside = [const { AtomicBool::new(false) }; THREADS];
        Self { items: Mutex::new(Box::new(slow)), is_inside, map }
    }

    fn split(&self, parts: usize) {
        if parts > 1 {
            join(|| self.split(parts / 2), || self.split(parts - parts / 2));
            return;
        }
        let here = current_thread_index().unwrap();
        if self.is_inside[here].swap(true, SeqCst) {
            return;
        }
        loop {
            let next = self.items.lock().unwrap().next();
            let Some(item) = next else { return };
            (self.map)(item);
        }
    }
}

#[test]
fn each_item_is_taken_once_and_the_loop_ends() {
    let taken = [const { AtomicUsize::new(0) }; ITEMS];
    let threads = AtomicUsize::new(0);
    let bridge = Bridge::new(|item| {
        let nap = || std::thread::sleep(Duration::from_micros(2_500));
        join(nap, || join(nap, || ()));
        taken[item].fetch_add(1, SeqCst);
        threads.fetch_or(1 << current_thread_index().unwrap(), SeqCst);
    });
    pool(THREADS).install(|| bridge.split(THREADS));
    assert!(taken.iter().all(|taken| taken.load(SeqCst) == 1));
    // While one thread takes an item, others sleep inside theirs.
    assert!(threads.load(SeqCst).count_ones() > 1, "one thread took all");
}

//! As `queue_cost.c`, by Rust's names: what callgrind counts inside of `queue_work`, which does nothing else.

use coreshard::{Work, Workqueue};

#[unsafe(no_mangle)]
#[inline(never)]
#[allow(unsafe_code)]
extern "C" fn queue_work(queue: &Workqueue, work: &Work) -> bool {
    work.queue(queue).is_ok_and(|queued| queued)
}

#[allow(clippy::print_stdout)]
fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1000_usize);
    let queue = coreshard::workqueue().unwrap().name("cost").build().unwrap();
    let works: Vec<_> = (0..count).map(|_| Work::new(|_| {})).collect();
    let mut queued = 0;
    for _ in 0..2 {
        queued += works.iter().filter(|work| queue_work(&queue, work)).count();
        queue.flush().unwrap();
    }
    println!("{queued}");
    assert_eq!(queued, 2 * count);
}

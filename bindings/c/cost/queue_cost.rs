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
    let number = |at: usize, default: usize| {
        std::env::args().nth(at).and_then(|number| number.parse().ok()).unwrap_or(default)
    };
    let (count, rounds) = (number(1, 1000), number(2, 2));
    let queue = coreshard::workqueue().unwrap().name("cost").build().unwrap();
    let works: Vec<_> = (0..count).map(|_| Work::new(|_| {})).collect();
    let mut queued = 0;
    let began = std::time::Instant::now();
    for _ in 0..rounds {
        queued += works.iter().filter(|work| queue_work(&queue, work)).count();
        queue.flush().unwrap();
    }
    println!("{:.1}", began.elapsed().as_nanos() as f64 / (count * rounds) as f64);
    assert_eq!(queued, rounds * count);
}

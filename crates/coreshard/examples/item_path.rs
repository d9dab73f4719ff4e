//! Measures the cost of the library itself, from the queueing call to the end of an item's run. Run it under a counter
//! of instructions, see `lab/count_instructions.py`.
//!
//! Usage: item_path push|submit|work|spawn|join ITEMS AT_A_TIME
//!
//! One worker, on one CPU. It is kept busy while AT_A_TIME items are queued, and then runs them in a row; so as
//! much is done in each run, whatever the machine does meanwhile.

use std::error::Error;
use std::hint::black_box;
use std::sync::mpsc;

use coreshard::{Scope, Work, Workqueue};

const USAGE: &str = "usage: item_path push|submit|work|spawn|join ITEMS AT_A_TIME";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, items, at_a_time] = &arguments[..] else { return Err(USAGE.into()) };
    let (items, at_a_time): (usize, usize) = (items.parse()?, at_a_time.parse()?);
    let one = coreshard::runtime()?.usable().iter().take(1).collect();
    let queue = coreshard::workqueue()?.name("path").scope(Scope::System).cpu_mask(one).build()?;
    let works: Vec<_> = (0..at_a_time).map(|_| Work::new(|_| _ = black_box(1))).collect();
    for first in (0..items).step_by(at_a_time) {
        let count = at_a_time.min(items - first);
        let (open, opened) = mpsc::channel::<()>();
        queue.queue(move || _ = opened.recv())?;
        match way.as_str() {
            "push" => push(&queue, count)?,
            "submit" => submit(&queue, count)?,
            "work" => work(&queue, &works[..count])?,
            "spawn" => spawn(&queue, count)?,
            "join" => join(&queue, count)?,
            _ => return Err(USAGE.into()),
        }
        drop(open);
        queue.drain()?;
    }
    Ok(())
}

fn push(queue: &Workqueue, items: usize) -> Result<(), Box<dyn Error>> {
    for item in 0..items {
        queue.queue(move || _ = black_box(item))?;
    }
    Ok(())
}

fn submit(queue: &Workqueue, items: usize) -> Result<(), Box<dyn Error>> {
    for item in 0..items {
        drop(queue.submit(move || black_box(item))?);
    }
    Ok(())
}

fn work(queue: &Workqueue, works: &[Work]) -> Result<(), Box<dyn Error>> {
    for work in works {
        work.queue(queue)?;
    }
    Ok(())
}

fn spawn(queue: &Workqueue, items: usize) -> Result<(), Box<dyn Error>> {
    for item in 0..items {
        queue.spawn(async move { black_box(item) })?.detach();
    }
    Ok(())
}

/// A tree of forks with this many leaves, in one item.
fn join(queue: &Workqueue, items: usize) -> Result<(), Box<dyn Error>> {
    fn leaves(count: usize) -> usize {
        if count < 2 {
            return black_box(count);
        }
        let (one, other) = coreshard::join(|| leaves(count / 2), || leaves(count - count / 2));
        one + other
    }
    queue.queue(move || _ = black_box(leaves(items)))?;
    Ok(())
}

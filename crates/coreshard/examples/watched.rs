//! A program to look at with `coreshard top`: a server's mix of short, long and waiting items.
//!
//! `cargo run --release -p coreshard --features insight --example watched [SECONDS]`

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use coreshard::{Sampling, Scope, Workqueue, blocking};

/// Keeps the CPU busy for about this many microseconds.
fn work(us: u64) {
    let until = Instant::now() + Duration::from_micros(us);
    while Instant::now() < until {
        black_box(us);
    }
}

fn load(queues: &[Workqueue], round: u64) -> Result<(), Box<dyn std::error::Error>> {
    let [requests, thumbnails, journal, mail] = queues else { unreachable!("four queues") };
    for _ in 0..100 {
        requests.queue(|| work(5))?;
    }
    if round.is_multiple_of(4) {
        thumbnails.queue(|| work(2_000))?;
    }
    journal.queue(|| work(50))?;
    if round.is_multiple_of(20) {
        mail.queue(|| blocking(|| thread::sleep(Duration::from_millis(30))))?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(u64::MAX), |text| text.parse())?;
    let build = |name: &str| coreshard::workqueue().map(|builder| builder.name(name));
    let queues = [
        build("requests")?.times(Sampling::default()).build()?,
        build("thumbnails")?.scope(Scope::Cache).times(Sampling::EVERY_ITEM).build()?,
        build("journal (ordered)")?.max_active(1).times(Sampling::EVERY_ITEM).build()?,
        build("mail")?.scope(Scope::Cpu).build()?,
    ];
    let insight = coreshard::serve_insight()?;
    println!("coreshard top {}", std::process::id());
    println!("coreshard top --socket {}", insight.path().display());
    let begun = Instant::now();
    for round in 0.. {
        if begun.elapsed().as_secs() >= seconds {
            break;
        }
        load(&queues, round)?;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

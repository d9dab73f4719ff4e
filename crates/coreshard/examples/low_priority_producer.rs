//! How long an item waits while a SCHED_IDLE thread floods another queue of the same pool.
//!
//! The flooding thread shares a CPU with a thread that computes, so the kernel preempts it for hundreds of milliseconds, now and
//! then in the middle of a push. Usage: `low_priority_producer [SECONDS]`. Needs `chrt` (util-linux).
#![allow(clippy::print_stdout, reason = "it is a command")]

use std::error::Error;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use coreshard::CpuSet;
use coreshard_platform::{affinity, set_affinity};

/// How long the thread that computes leaves its CPU to the flooding one, and how long it does not.
const RESTS: Duration = Duration::from_micros(200);
const COMPUTES: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(10), |seconds| seconds.parse())?;
    let flooded = coreshard::workqueue()?.name("flooded").build()?;
    let queue = coreshard::workqueue()?.name("waiting").build()?;
    let one: CpuSet = affinity()?.iter().take(1).collect();
    let is_over = AtomicBool::new(false);
    let waits = thread::scope(|scope| {
        scope.spawn(|| {
            set_affinity(&one).expect("the CPU is usable");
            let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
            let status = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status();
            assert!(status.expect("chrt is installed").success(), "chrt failed");
            while !is_over.load(Relaxed) {
                flooded.queue(|| ()).expect("the queue is open");
            }
        });
        scope.spawn(|| {
            set_affinity(&one).expect("the CPU is usable");
            while !is_over.load(Relaxed) {
                let since = Instant::now();
                while since.elapsed() < COMPUTES && !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
                thread::sleep(RESTS);
            }
        });
        set_affinity(&one).expect("the CPU is usable");
        let since = Instant::now();
        let mut waits = Vec::new();
        while since.elapsed() < Duration::from_secs(seconds) {
            thread::sleep(Duration::from_millis(2));
            let queued = Instant::now();
            let handle = queue.submit(move || queued.elapsed()).expect("the queue is open");
            waits.push(handle.join().expect("the item runs"));
        }
        is_over.store(true, Relaxed);
        waits
    });
    let mut waits = waits;
    waits.sort();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    println!("{} items: median {median:?}, longest {longest:?}", waits.len());
    Ok(())
}

//! Demos: small programs of fork and join, and of parallel iterators, on whatever scheduler rayon is built with.
//!
//! Usage: rayon-demos list                           (name, group, what it does)
//!        rayon-demos NAME [REPETITIONS [SCALE]]
//!
//! Prints a line for each repetition, all in this one process: the wall-clock seconds and the CPU seconds of all threads.
//! Each result is compared with that of a serial run, outside of the timed part. If they differ, the program panics.
//! SCALE is `full` or `quick`: small inputs that check the demo, not the scheduler.

mod case;
mod forks;
mod iterators;
mod random;
mod scopes;
mod simulations;
mod sorts;
mod trees;

use case::{Demo, Scale};

/// All demos, by the group that they belong to.
fn groups() -> [(&'static str, Vec<Demo>); 6] {
    [
        ("fork and join", forks::demos()),
        ("sorts", sorts::demos()),
        ("simulations", simulations::demos()),
        ("searches", trees::demos()),
        ("iterators", iterators::demos()),
        ("scopes and pools", scopes::demos()),
    ]
}

fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_else(|| "list".into());
    if name == "list" {
        for (group, demos) in groups() {
            for demo in demos {
                println!("{}\t{group}\t{}", demo.name, demo.about);
            }
        }
        return;
    }
    let repetitions: usize = match words.next() {
        Some(text) => text.parse().unwrap_or_else(|_| quit(&format!("{text} is not a number"))),
        None => 5,
    };
    let scale = match words.next().as_deref() {
        None | Some("full") => Scale::Full,
        Some("quick") => Scale::Quick,
        Some(other) => quit(&format!("{other} is neither full nor quick")),
    };
    let mut all = groups().into_iter().flat_map(|(_, demos)| demos);
    let Some(demo) = all.find(|demo| demo.name == name) else {
        quit(&format!("no demo is called {name}; `rayon-demos list` names all"));
    };
    let mut lap = (demo.prepare)(scale);
    for _ in 0..repetitions {
        let taken = lap();
        println!("{:.9} {:.6}", taken.seconds, taken.cpu_seconds);
    }
}

fn quit(why: &str) -> ! {
    eprintln!("rayon-demos: {why}");
    std::process::exit(2);
}

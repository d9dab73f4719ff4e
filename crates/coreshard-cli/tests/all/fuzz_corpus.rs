//! The fuzz targets on their corpora and on mutated inputs, wherever the tests run: no coverage guides this,
//! and no sanitizer watches; `ci/fuzz.sh` has both.
//!
//! `CORESHARD_FUZZ_INPUTS=1000000 cargo test --release -p coreshard-cli --test all fuzz_corpus::` runs more inputs
//! than the few that a test may take.

#[allow(unreachable_pub, reason = "it is a module of a library in the fuzz workspace")]
#[path = "../../../../fuzz/src/targets.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::wait_until;
use testing::NEVER;

const LONGEST: usize = 64 << 10;

/// What brings parsers into trouble more often than chance does.
const TOKENS: [&str; 24] = [
    "0-65535",
    ",",
    "-",
    "4294967295",
    "-1",
    "18446744073709551616",
    "1e308",
    "nan",
    "\0",
    "\u{1b}[2J",
    "\u{202e}",
    "\n",
    "[numa]",
    "pu:1",
    "(indexes=",
    "1*1:",
    "<!DOCTYPE a [",
    "<!ENTITY",
    "&a;",
    "'",
    "\"",
    "[[",
    "{",
    "=proc/self/status\n",
];

/// Marsaglia's xorshift, 64 bits.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn mutated(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut input = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(6) {
            let at = self.below(input.len() + 1);
            let end = (at + self.below(40)).min(input.len());
            match self.below(7) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 if at < input.len() => input[at] = self.next() as u8,
                2 => drop(input.drain(at..end)),
                3 => {
                    let part = input[at..end].repeat(1 + self.below(50));
                    input.splice(at..at, part);
                }
                4 => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len() + 1);
                    input.splice(at.., other[from..].iter().copied());
                }
                5 => {
                    let bytes: Vec<u8> = (0..self.below(8)).map(|_| self.next() as u8).collect();
                    input.splice(at..at, bytes);
                }
                _ => {
                    let token = TOKENS[self.below(TOKENS.len())];
                    input.splice(at..at, token.bytes());
                }
            }
            input.truncate(LONGEST);
        }
        input
    }
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut files = Vec::new();
    for folder in ["corpus", "crashes"] {
        let Ok(entries) = fs::read_dir(fuzz.join(folder).join(target)) else { continue };
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    // The same order everywhere, so that a seed of the dice means the same inputs.
    files.sort();
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

/// The input at which a target panics, if there is one among the seeds and `count` mutated ones.
fn search(name: &str, target: fn(&[u8]), count: usize) -> Option<Vec<u8>> {
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "fuzz/corpus/{name} has no seed");
    let begun: Arc<Mutex<(Instant, Vec<u8>)>> = Arc::new(Mutex::new((Instant::now(), Vec::new())));
    let worker = {
        let begun = Arc::clone(&begun);
        thread::spawn(move || {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            let mutated: Vec<Vec<u8>> = Vec::new();
            let all = seeds.clone().into_iter().chain(mutated);
            let all = all.map(Some).chain((0..count).map(|_| None));
            for input in all {
                let input = input.unwrap_or_else(|| random.mutated(&seeds));
                *begun.lock().unwrap() = (Instant::now(), input.clone());
                if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
                    return Some(input);
                }
            }
            None
        })
    };
    wait_until("all inputs were tried", Duration::MAX, || {
        let (at, input) = begun.lock().unwrap().clone();
        let escaped = input.escape_ascii();
        assert!(at.elapsed() < NEVER, "{name} has no end with {escaped}");
        worker.is_finished().then_some(())
    });
    worker.join().unwrap()
}

fn count(few: usize) -> usize {
    std::env::var("CORESHARD_FUZZ_INPUTS").map_or(few, |number| number.parse().unwrap())
}

#[test]
fn no_parser_breaks_a_promise() {
    // One beside the other: a fifth of a second each, most of them. ci/fuzz.sh searches for longer.
    let searches = targets::TARGETS.map(|(name, target)| {
        let few = match name {
            // Writes files.
            "machine_folder" | "machine_settings" => 100,
            // Draws a page and a picture.
            "queue_results" => 400,
            // These are replayed, several times if threads contend.
            "recording" | "recorded_events" => 200,
            _ => 2_000,
        };
        (name, thread::spawn(move || search(name, target, count(few))))
    });
    for (name, search) in searches {
        let broken = search.join().unwrap().map(|input| input.escape_ascii().to_string());
        assert_eq!(
            broken, None,
            "{name} breaks a promise with this input; keep it in fuzz/crashes/{name}"
        );
    }
}

/// A search that cannot find existing bugs would always pass.
#[test]
fn the_canary_is_found() {
    assert!(search("canary", targets::canary, 200_000).is_some());
}

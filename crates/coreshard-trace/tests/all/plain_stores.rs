//! Stores without atomics, on machines with store buffers.

use coreshard_sim::Machine;
use coreshard_trace::{About, Ending, Recording, RecordingWriter, ReplayOptions, Sharing, replay};

const TIMES: usize = 5_000;
const LINE: u64 = 0x7000;

/// Kinds of access, as a recording has them.
const LOAD: u8 = 0;
const STORE: u8 = 1;
const ATOMIC: u8 = 2 | 4;

/// Returns a recording of two threads that repeat these accesses, each to its own word.
fn recording(accesses: &[u8], between_bytes: u64) -> Recording {
    let mut file = Vec::new();
    let mut writer = RecordingWriter::new(&mut file, &About::default()).unwrap();
    for thread in 0..2u32 {
        let mut events = Vec::new();
        for (site, kind) in (0u16..).zip(accesses) {
            events.extend((site << 4 | 5).to_le_bytes());
            events.extend((0x40_0000 + u64::from(site)).to_le_bytes());
            events.extend((LINE + u64::from(thread) * between_bytes).to_le_bytes());
            events.extend([*kind, 8]);
        }
        for _ in 1..TIMES {
            (0..accesses.len() as u16).for_each(|site| events.extend((site << 4).to_le_bytes()));
        }
        writer.chunk(thread + 1, 0, &events).unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    Recording::from_bytes(file).unwrap()
}

/// Returns a machine whose CPUs continue past this many stores to one word: eight in five cycles of work ahead.
fn machine(stores_ahead: u64) -> Machine {
    let pocket = include_str!("../../../coreshard-sim/src/machine/pocket.toml");
    let work_ahead_ns = (stores_ahead * 5).div_ceil(8) as f64 * 0.385;
    let arbitration = format!(
        "\n[costs.arbitration]\nloads_take_dirty_lines = true\nwork_ahead_ns = {work_ahead_ns}\nsource = \"assumed\"\n"
    );
    Machine::from_toml("pocket", &format!("{pocket}{arbitration}")).unwrap()
}

fn virtual_ns(recording: &Recording, stores_ahead: u64) -> f64 {
    let report = replay(recording, &machine(stores_ahead), &ReplayOptions::default()).unwrap();
    assert_eq!(report.accesses % TIMES as u64, 0);
    report.virtual_ns
}

#[test]
fn the_more_stores_a_cpu_goes_on_past_the_less_a_shared_line_costs() {
    let beside = recording(&[LOAD, STORE], 8);
    let times: Vec<f64> = [4, 16, 64].map(|ahead| virtual_ns(&beside, ahead)).into();
    assert!(times.is_sorted_by(|more, less| *more > 2.0 * less), "{times:?}");
    // It is at least the time on separate lines.
    let apart = recording(&[LOAD, STORE], 64);
    assert_eq!(virtual_ns(&apart, 0), virtual_ns(&apart, 64));
    assert!(virtual_ns(&beside, 4_096) >= virtual_ns(&apart, 0));
}

#[test]
fn a_line_changes_hands_once_for_as_many_stores_as_wait() {
    let beside = recording(&[LOAD, STORE], 8);
    let report = replay(&beside, &machine(16), &ReplayOptions::default()).unwrap();
    let line = &report.lines[0];
    assert_eq!((line.address, line.sharing), (LINE, Sharing::False));
    let counts: u64 = line.words.iter().map(|word| word.count).sum();
    assert_eq!(counts, 4 * TIMES as u64, "{line:#?}");
    let misses: u64 = line.words.iter().map(|word| word.misses).sum();
    let turns = 2 * TIMES as u64 / 16;
    assert!((turns / 2..=2 * turns).contains(&misses), "{misses} of {turns}");
}

#[test]
fn read_modify_writes_wait_for_stores_and_are_no_faster() {
    let atomics = recording(&[ATOMIC], 8);
    assert_eq!(virtual_ns(&atomics, 0), virtual_ns(&atomics, 64));
    let mixed = recording(&[ATOMIC, STORE], 8);
    assert!(virtual_ns(&mixed, 64) >= virtual_ns(&atomics, 0));
}

#[test]
fn a_wait_for_a_store_before_a_lock_is_lost_on_the_lines_that_other_threads_took() {
    // A lock's exchange, a store of data on the same line, and the store that frees the lock.
    for kinds in [&[ATOMIC, STORE, STORE][..], &[ATOMIC, LOAD, STORE]] {
        let report = replay(&recording(kinds, 8), &machine(0), &ReplayOptions::default()).unwrap();
        let share = report.taken_back_ns / report.lost_ns;
        assert!(share > 0.95, "{share}: {report:#?}");
        let line = report.lines[0].lost_ns / report.taken_back_ns;
        assert!(line > 0.95, "{line}: {report:#?}");
    }
}

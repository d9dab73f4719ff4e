//! Two regular loops that access words of one line, with different amounts of work between accesses.

use coreshard_sim::Machine;
use coreshard_trace::{About, Ending, Recording, RecordingWriter, ReplayOptions, replay};

const TIMES: usize = 2_000;
const LINE: u64 = 0x7000;

/// Kinds of access, as a recording has them.
const LOAD: u8 = 0;
const STORE: u8 = 1;
const ATOMIC: u8 = 2 | 4;

/// One turn of a thread's loop: these accesses to its word, and this number of accesses to private memory.
type Loop<'a> = (&'a [u8], usize);

fn recording(loops: [Loop<'_>; 2]) -> Recording {
    let mut file = Vec::new();
    let mut writer = RecordingWriter::new(&mut file, &About::default()).unwrap();
    for (thread, (accesses, others)) in (0u32..).zip(loops) {
        let own = 0x10_0000 * u64::from(thread + 1);
        let shared = accesses.iter().map(|kind| (*kind, LINE + 8 * u64::from(thread)));
        let others = std::iter::repeat_n((STORE, own), others);
        let all: Vec<_> = shared.chain(others).collect();
        let mut events = Vec::new();
        for (site, (kind, address)) in (0u16..).zip(&all) {
            events.extend((site << 4 | 5).to_le_bytes());
            events.extend((0x40_0000 + u64::from(site)).to_le_bytes());
            events.extend(address.to_le_bytes());
            events.extend([*kind, 8]);
        }
        for _ in 1..TIMES {
            (0..all.len() as u16).for_each(|site| events.extend((site << 4).to_le_bytes()));
        }
        writer.chunk(thread + 1, 0, &events).unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    Recording::from_bytes(file).unwrap()
}

#[test]
fn a_machines_compute_hides_no_sharing() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let pocket =
        std::fs::read_to_string(format!("{folder}/../coreshard-sim/src/machine/pocket.toml"));
    let computing = pocket
        .unwrap()
        .replace("[costs]\n", "[costs]\ncompute = { ns = 45.6, source = \"measured\" }\n");
    let recording = recording([(&[LOAD, STORE], 4), (&[LOAD, STORE], 4)]);
    let lost = |machine: &Machine| {
        let report = replay(&recording, machine, &ReplayOptions::default()).unwrap();
        report.taken_back_ns / report.running_ns
    };
    let (plain, computing) =
        (lost(&Machine::pocket()), lost(&Machine::from_toml("computing", &computing).unwrap()));
    assert!(plain > 0.1, "{plain}");
    assert!((plain - computing).abs() < 1e-9, "{plain} {computing}");
}

/// Returns the misses of the first thread, and the end of both threads in nanoseconds.
fn run(first: Loop<'_>, second: Loop<'_>) -> (u64, [f64; 2]) {
    let machine = Machine::named("epyc-9654-2s").unwrap();
    let report = replay(&recording([first, second]), &machine, &ReplayOptions::default()).unwrap();
    let words = report.lines.iter().flat_map(|line| &line.words);
    let misses = words.filter(|word| word.threads == [1]).map(|word| word.misses).sum();
    (misses, [report.threads[0].ended_ns, report.threads[1].ended_ns])
}

#[test]
fn a_short_loop_does_not_lose_more_the_longer_the_other_one_is() {
    let add: &[u8] = &[LOAD, STORE];
    for between in [0, 4] {
        let (least, [time, _]) = run((add, between), (&[STORE], between + 3));
        for more in [10, 20, 30, 50, 70, 100, 150] {
            let (misses, [short, long]) = run((add, between), (&[STORE], between + more));
            assert!(misses <= 2 * least, "{between} and {more} more: {misses}, {least} at first");
            assert!(misses < TIMES as u64 / 10, "{between} and {more} more: {misses}");
            assert!(short < 1.6 * time, "{between} and {more} more: {short}, {time} at first");
            assert!(short < long, "{between} and {more} more: {short} and {long}");
        }
    }
}

#[test]
fn loops_whose_lengths_fit_a_lines_way_do_not_fall_into_step() {
    // One turn of the second loop takes almost as long as moving the line there and back.
    let (misses, [short, long]) = run((&[ATOMIC], 0), (&[LOAD, STORE], 300));
    assert!(misses < TIMES as u64 / 4, "{misses}");
    assert!(2.0 * short < long, "{short} and {long}");
}

#[test]
fn stores_to_a_line_that_is_on_its_way_go_out_with_it() {
    for between in [0, 3, 10, 40, 100] {
        let (misses, [short, _]) = run((&[STORE], 0), (&[STORE], between));
        assert!(misses < TIMES as u64 / 20, "{between}: {misses}");
        let alone = run((&[STORE], 0), (&[], 1)).1[0];
        assert!(short < 1.5 * alone, "{between}: {short}, and {alone} alone");
    }
}

#[test]
fn atomics_take_the_line_at_each_turn_as_long_as_both_want_it() {
    let (misses, _) = run((&[ATOMIC], 0), (&[ATOMIC], 10));
    assert!(misses > TIMES as u64 * 9 / 10, "{misses}");
}

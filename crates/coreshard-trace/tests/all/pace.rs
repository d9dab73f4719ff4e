//! Replays at the pace of a run without a recorder.

use coreshard_sim::Machine;
use coreshard_trace::{
    About, Ending, Recording, RecordingWriter, ReplayOptions, ReplayReport, replay,
};

const TIMES: usize = 2_000;

/// Returns the replay of a first thread that does next to nothing, and of others that each add to a word of their own, with
/// `before` instructions before each addition.
fn run(counts_instructions: bool, others: &[u8], threads_ns: &[u64]) -> ReplayReport {
    let about = About { counts_instructions, ..About::default() };
    let mut file = Vec::new();
    let mut writer = RecordingWriter::new(&mut file, &about).unwrap();
    let threads = [(0, 1)].into_iter().chain(others.iter().map(|before| (*before, TIMES)));
    for (thread, (before, times)) in (1u32..).zip(threads) {
        let mut events = Vec::new();
        for (site, kind) in [0u8, 1].into_iter().enumerate() {
            events.extend(((site as u16) << 4 | 5).to_le_bytes());
            events.extend((0x40_0000 + site as u64).to_le_bytes());
            events.extend((0x10_0000 * u64::from(thread)).to_le_bytes());
            events.extend([kind | before << 3, 8]);
        }
        for _ in 1..times {
            [0u16, 1].iter().for_each(|site| events.extend((site << 4).to_le_bytes()));
        }
        writer.chunk(thread, 0, &events).unwrap();
    }
    let ending = Ending { threads_ns: threads_ns.to_vec(), ..Ending::default() };
    writer.finish(&ending).unwrap();
    let recording = Recording::from_bytes(file).unwrap();
    let pocket = include_str!("../../../coreshard-sim/src/machine/pocket.toml");
    let ahead = "[costs.arbitration]\nwork_ahead_ns = 60\nsource = \"assumed\"\n";
    let machine = Machine::from_toml("pocket", &format!("{pocket}\n{ahead}")).unwrap();
    replay(&recording, &machine, &ReplayOptions::default()).unwrap()
}

fn ended(report: &ReplayReport) -> Vec<f64> {
    let mut threads: Vec<_> = report.threads.iter().collect();
    threads.sort_by_key(|thread| thread.thread);
    threads.iter().skip(1).map(|thread| thread.ended_ns).collect()
}

fn are_about(found: &[f64], expected: &[f64]) {
    let is_about = |(found, expected): (&f64, &f64)| (found / expected - 1.0).abs() < 0.02;
    assert!(found.iter().zip(expected).all(is_about), "{found:?}, expected {expected:?}");
}

#[test]
fn each_thread_takes_as_long_as_it_did_alone() {
    for counts_instructions in [true, false] {
        let report = run(counts_instructions, &[2, 30], &[1_000, 50_000, 400_000]);
        are_about(&ended(&report), &[50_000.0, 400_000.0]);
    }
    // Without a pace, only counted instructions take time.
    let [counted, others] = [true, false].map(|counts| ended(&run(counts, &[2, 30], &[])));
    assert!(counted[1] > 5.0 * counted[0], "{counted:?}");
    assert!((others[1] / others[0] - 1.0).abs() < 0.01, "{others:?}");
}

#[test]
fn threads_that_divide_their_work_otherwise_share_a_pace() {
    // The first worker did everything on one CPU.
    are_about(&ended(&run(true, &[9, 9], &[1_000, 800_000, 100])), &[400_000.0; 2]);
    // There was one worker only.
    are_about(&ended(&run(true, &[9, 9], &[1_000, 800_000])), &[400_000.0; 2]);
    // The first thread did everything itself.
    let alone = ended(&run(false, &[9, 9], &[800_000]));
    assert!(alone.iter().all(|ns| (350_000.0..400_001.0).contains(ns)), "{alone:?}");
}

#[test]
fn a_thread_that_span_keeps_the_assumed_pace() {
    let assumed = ended(&run(true, &[9, 9], &[]));
    let found = ended(&run(true, &[9, 9], &[1_000, 1_000_000_000, u64::MAX]));
    assert!(found[1] < 1.1 * assumed[1] && found[1] > 0.5 * assumed[1], "{found:?} {assumed:?}");
}

//! Work that a CPU does while a line is in transit to it: loads, read-modify-writes, stores and loops that wait.

use coreshard_sim::Machine;
use coreshard_trace::{
    About, Ending, Recording, RecordingWriter, ReplayOptions, ReplayReport, replay,
};

const TIMES: usize = 2_000;
const LINE: u64 = 0x7000;
const NEXT_LINE: u64 = LINE + 64;

/// Kinds of access, as a recording has them.
const LOAD: u8 = 0;
const STORE: u8 = 1;
const ATOMIC: u8 = 2 | 4;

/// An access: its kind, its address, and the instructions before it.
type Step = (u8, u64, u8);

/// Returns a recording of threads that repeat these accesses this often.
fn recording(threads: &[(&[Step], usize)]) -> Recording {
    let about = About { counts_instructions: true, ..About::default() };
    let mut file = Vec::new();
    let mut writer = RecordingWriter::new(&mut file, &about).unwrap();
    for (thread, (steps, times)) in (1u32..).zip(threads) {
        let mut events = Vec::new();
        for (site, (kind, address, before)) in (0u16..).zip(*steps) {
            events.extend((site << 4 | 5).to_le_bytes());
            events.extend((0x40_0000 + u64::from(site)).to_le_bytes());
            events.extend(address.to_le_bytes());
            events.extend([kind | before << 3, 8]);
        }
        for _ in 1..*times {
            (0..steps.len() as u16).for_each(|site| events.extend((site << 4).to_le_bytes()));
        }
        writer.chunk(thread, 0, &events).unwrap();
    }
    writer.finish(&Ending::default()).unwrap();
    Recording::from_bytes(file).unwrap()
}

fn run(threads: &[(&[Step], usize)], arbitration: &str) -> ReplayReport {
    let pocket = include_str!("../../../coreshard-sim/src/machine/pocket.toml");
    let text = format!("{pocket}\n[costs.arbitration]\n{arbitration}\nsource = \"assumed\"\n");
    let machine = Machine::from_toml("pocket", &text).unwrap();
    replay(&recording(threads), &machine, &ReplayOptions::default()).unwrap()
}

/// Returns the line of a machine's file for CPUs that do this much work ahead. If it is 0, they do next to none, but loads that hit
/// cost as little as with more.
fn ahead(work_ahead: u64) -> String {
    format!("work_ahead_ns = {}", if work_ahead == 0 { 0.001 } else { work_ahead as f64 })
}

/// Returns the time of two threads that repeat these accesses.
fn time(one: &[Step], other: &[Step], arbitration: &str) -> f64 {
    run(&[(one, TIMES), (other, TIMES)], arbitration).virtual_ns
}

/// Work without accesses to memory of other threads.
fn private(thread: u64, kind: u8) -> Step {
    (kind, 0x10_0000 * (thread + 1), 31)
}

#[test]
fn a_loads_line_is_in_transit_while_the_cpu_works() {
    let (reads, counts) = ((LOAD, LINE, 0), (ATOMIC, LINE + 8, 0));
    let works = [private(1, LOAD); 4];
    let reader: Vec<_> = [reads].into_iter().chain(works).collect();
    let of = |work_ahead: u64| run(&[(&reader, TIMES), (&[counts], TIMES)], &ahead(work_ahead));
    let reports = [0, 30, 1_000].map(of);
    let ended: Vec<f64> = reports.iter().map(|report| report.threads[0].ended_ns).collect();
    assert!(ended.is_sorted_by(|more, less| *more > 1.1 * less), "{ended:?}");
    let lost: Vec<f64> = reports.iter().map(|report| report.threads[0].lost_ns).collect();
    assert!(lost.is_sorted_by(|more, less| more > less) && lost[2] < 0.01 * lost[0], "{lost:?}");
    // It takes no less than without the other thread.
    let alone = run(&[(&reader, TIMES), (&[private(2, STORE)], TIMES)], &ahead(0));
    let alone = alone.threads[0].ended_ns;
    assert!((1.0..1.05).contains(&(ended[2] / alone)), "{ended:?} {alone}");
}

#[test]
fn several_lines_are_in_transit_at_once() {
    // The second thread takes both lines in each turn of the first.
    let both = |kind: u8, offset: u64, works: usize| -> Vec<Step> {
        let lines = [LINE, NEXT_LINE].map(|line| (kind, line + offset, 0));
        lines.into_iter().chain(vec![private(u64::from(kind) + 1, STORE); works]).collect()
    };
    let (reader, writer) = (both(LOAD, 0, 400), both(STORE, 8, 100));
    let lost = |work_ahead: u64| {
        run(&[(&reader, TIMES / 10), (&writer, TIMES)], &ahead(work_ahead)).threads[0].lost_ns
    };
    let (one_by_one, at_once) = (lost(0), lost(10));
    let share = at_once / one_by_one;
    assert!((0.3..0.6).contains(&share), "{at_once} {one_by_one}");
}

#[test]
fn computation_after_a_read_modify_write_goes_on_while_it_waits() {
    let adds = |thread: u64, address: u64| {
        [(ATOMIC, address, 0)].into_iter().chain([private(thread, STORE); 100]).collect::<Vec<_>>()
    };
    let of = |apart: u64, work_ahead: u64| {
        time(&adds(1, LINE), &adds(2, LINE + apart), &ahead(work_ahead))
    };
    let times = [of(8, 0), of(8, 50), of(8, 100), of(64, 0)];
    assert!(times.is_sorted_by(|more, less| *more > 1.05 * less), "{times:?}");
    assert_eq!(of(64, 0), of(64, 1_000), "no line is in transit");
}

#[test]
fn a_load_after_a_read_modify_write_waits_for_it() {
    let adds = |thread: u64| {
        [(ATOMIC, LINE + 8 * thread, 0), (LOAD, 0x50_0000 * thread, 0), private(thread, STORE)]
    };
    let of = |work_ahead: u64| time(&adds(1), &adds(2), &ahead(work_ahead));
    assert_eq!(of(0), of(50));
}

#[test]
fn a_read_modify_write_waits_for_the_loads_before_it() {
    let reads_and_adds = [(LOAD, LINE, 0), (ATOMIC, 0x20_0000, 0)];
    let writer = [(STORE, LINE + 8, 0), private(2, STORE)];
    let ended = |work_ahead: u64| {
        let threads = [(&reads_and_adds[..], TIMES), (&writer, 2 * TIMES)];
        run(&threads, &ahead(work_ahead)).threads[0].ended_ns
    };
    let (waits, goes_on) = (ended(0), ended(1_000));
    assert!((goes_on / waits - 1.0).abs() < 0.1, "{waits} {goes_on}");
}

#[test]
fn stores_of_one_word_share_an_entry_of_the_store_buffer() {
    let one = |address: u64| [(STORE, address, 0); 4];
    let four = |address: u64| [0, 8, 16, 24].map(|offset| (STORE, address + offset, 0));
    let of = |words: [[Step; 4]; 2], work_ahead: u64| {
        let arbitration = format!("loads_take_dirty_lines = true\n{}", ahead(work_ahead));
        time(&words[0], &words[1], &arbitration)
    };
    let of_one = [8, 16, 32].map(|ahead| of([one(LINE), one(LINE + 32)], ahead));
    let of_four = [8, 16, 32].map(|ahead| of([four(LINE), four(LINE + 32)], ahead));
    for times in [of_one, of_four] {
        assert!(times.is_sorted_by(|more, less| *more > 1.2 * less), "{times:?}");
    }
    let costs_more = |(one, four): (f64, f64)| four > 1.5 * one;
    assert!(of_one.into_iter().zip(of_four).all(costs_more), "{of_one:?} {of_four:?}");
}

#[test]
fn a_loop_that_waits_for_another_thread_ends_when_the_other_thread_is_done() {
    // The last store of the second thread ends the loop of the first.
    let works: Vec<_> =
        std::iter::repeat_n(private(2, STORE), 200).chain([(STORE, LINE, 0)]).collect();
    let waits: Vec<_> = [(LOAD, LINE, 3)].into_iter().collect();
    let of = |loads: usize| {
        let report = run(&[(&waits, loads), (&works, 1)], "");
        [report.threads[0].ended_ns, report.threads[1].ended_ns]
    };
    let [waited, worked] = of(100_000);
    assert!(waited > worked && waited < 1.5 * worked, "{waited} {worked}");
    let [short, worked] = of(10);
    assert!(short < worked, "the recorded loop was shorter");
}

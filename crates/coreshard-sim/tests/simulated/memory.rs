//! The cost of memory accesses, compared with a machine's file and with published measurements.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use coreshard_platform::{AtomicInt, Platform, ThreadHandle};
use coreshard_sim::{Machine, Sim, Simulation};
use coreshard_topology::CpuId;

use crate::machines::{GRAVITON_1, SKYLAKE, TWO_SOCKETS};
use crate::programs::{self, AtomicU64, Line, ping_pong_ns, pinned};

#[test]
fn ping_pong_between_any_two_cpus_takes_the_files_latency_exactly() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let cpus: Vec<CpuId> = machine.topology().cpus().iter().map(|cpu| cpu.id).collect();
    for one in &cpus {
        for other in cpus.iter().filter(|other| *other != one) {
            let expected = machine.latency_ns(*one, *other).unwrap();
            for seed in 0..2 {
                let simulation = Simulation::new(&machine).seed(seed);
                let run = simulation.run(|| ping_pong_ns(*one, *other)).unwrap();
                // Exact, apart from the clock's nanosecond at each end.
                let off = (run.value - expected).abs();
                assert!(off <= 0.0051, "CPUs {one} and {other}: {} not {expected}", run.value);
            }
        }
    }
}

#[test]
fn an_uncontended_operation_costs_what_the_file_says() {
    let machine = Machine::from_toml("skylake", SKYLAKE).unwrap();
    let run = Simulation::new(&machine).run(|| programs::contended_ns(1, programs::add)).unwrap();
    assert!((6.0..=8.0).contains(&run.value), "{}", run.value);
    pinned_threads_stay_where_they_are(&machine);
}

fn pinned_threads_stay_where_they_are(machine: &Machine) {
    let run = Simulation::new(machine).run(|| {
        pinned(CpuId(2), || assert_eq!(Sim::current_cpu(), CpuId(2))).join();
    });
    assert_eq!(run.unwrap().summary.threads, 2);
}

/// Each read-modify-write is a load and a store there. If the line was taken between the two, both are
/// repeated.
#[test]
fn nothing_is_lost_where_atomics_are_loads_and_stores_that_fail() {
    const CPUS: u32 = 8;
    const TIMES: u64 = 200;
    let machine = Machine::from_toml("graviton 1", GRAVITON_1).unwrap();
    for seed in 0..4 {
        let run = Simulation::new(&machine).seed(seed).run(|| {
            let line = Arc::new(Line::new());
            let body = |line: Arc<Line>| {
                move || {
                    for _ in 0..TIMES {
                        line.word.fetch_add(1, AcqRel);
                        let mut seen = line.other.load(Relaxed);
                        while let Err(now) =
                            line.other.compare_exchange(seen, seen + 1, AcqRel, Relaxed)
                        {
                            assert_ne!(
                                now, seen,
                                "it failed although the word held the expected value"
                            );
                            seen = now;
                        }
                    }
                }
            };
            let threads: Vec<_> =
                (0..CPUS).map(|cpu| pinned(CpuId(cpu), body(Arc::clone(&line)))).collect();
            threads.into_iter().for_each(ThreadHandle::join);
            [line.word.load(Relaxed), line.other.load(Relaxed)]
        });
        assert_eq!(run.unwrap().value, [u64::from(CPUS) * TIMES; 2]);
    }
}

/// Returns two sockets with arbitration of contended lines, including these lines of the file.
fn two_sockets(arbitration: &str) -> Machine {
    let text = format!(
        "{TWO_SOCKETS}\n[costs.arbitration]\nhold_ns = 0\n{arbitration}source = \"a figure for tests\"\n"
    );
    Machine::from_toml("two sockets", &text).unwrap()
}

/// Returns how long `second` takes on the second CPU after the first one has written all of `LINES`, in
/// nanoseconds per line.
fn after_a_writer(arbitration: &str, cpus: (u32, u32), second: fn(&[Line])) -> f64 {
    const LINES: usize = 100;
    let machine = two_sockets(arbitration);
    let run = Simulation::new(&machine).run(|| {
        let lines: Arc<Vec<_>> = Arc::new((0..LINES).map(|_| Line::new()).collect());
        let written = Arc::clone(&lines);
        pinned(CpuId(cpus.0), move || written.iter().for_each(|it| it.word.store(1, Relaxed)))
            .join();
        let took = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let tells = Arc::clone(&took);
        pinned(CpuId(cpus.1), move || {
            let start = Sim::now();
            second(&lines);
            tells.store(Sim::now().ns_since(start), Relaxed);
        })
        .join();
        took.load(Relaxed) as f64 / LINES as f64
    });
    run.unwrap().value
}

#[test]
fn cpus_of_a_core_read_what_one_of_them_wrote_at_the_price_of_a_hit() {
    let load = |lines: &[Line]| lines.iter().for_each(|it| assert_eq!(it.word.load(Relaxed), 1));
    let (sibling, other) = (after_a_writer("", (0, 1), load), after_a_writer("", (0, 2), load));
    assert!((1.0..2.5).contains(&sibling), "{sibling} ns of 1.54");
    assert!((20.0..40.0).contains(&other), "{other} ns of 25");
}

/// With a load and a store that fails without the line: the load fetches it, although the sibling's cache has
/// it.
#[test]
fn a_cpu_adds_to_what_an_idle_sibling_wrote() {
    let add = |lines: &[Line]| {
        for line in lines {
            assert_eq!(line.word.fetch_add(1, AcqRel), 1);
        }
    };
    let exclusives = after_a_writer("load_and_store_exclusive = true\n", (0, 1), add);
    assert!((8.0..40.0).contains(&exclusives), "{exclusives} ns of two ways of 8");
}

#[test]
fn a_core_has_several_lines_on_their_way_where_the_machine_says_so() {
    // Each belongs to a different line, and an atomic at the end waits for all.
    let count = |lines: &[Line]| {
        for line in lines {
            line.word.store(line.word.load(Relaxed) + 1, Relaxed);
        }
        assert_eq!(lines[0].other.fetch_add(1, AcqRel), 0);
        assert!(lines.iter().all(|it| it.word.load(Relaxed) == 2));
    };
    let one = after_a_writer("", (0, 8), count);
    let ten = after_a_writer("misses_at_once = 10\n", (0, 8), count);
    let two = after_a_writer("misses_at_once = 2\n", (0, 8), count);
    assert!(ten < two && two < one, "{ten} ns with ten at once, {two} with two, {one} with one");
    assert!(ten < one / 4.0, "{ten} ns with ten at once, {one} with one");
}

#[test]
fn a_request_that_nobody_competes_with_takes_as_long_wherever_it_has_its_turn() {
    let add = |lines: &[Line]| {
        for line in lines {
            assert_eq!(line.word.fetch_add(1, AcqRel), 1);
        }
    };
    let (at_once, later) = ("", "request_ns = 10\n");
    for other in [2, 8] {
        let one = after_a_writer(at_once, (0, other), add);
        let same = after_a_writer(later, (0, other), add);
        assert!((one - same).abs() < 0.5, "{one} and {same} ns from CPU {other}");
    }
}

/// Returns how long an add of the line's owner takes that begins 3 ns after another CPU's add, in
/// nanoseconds.
fn owners_add_ns(arbitration: &str) -> u64 {
    let machine = two_sockets(arbitration);
    let run = Simulation::new(&machine).run(|| {
        let line = Arc::new(Line::new());
        let begin = Sim::now().as_ns() + 1_000_000;
        let wait_until = |ns: u64| {
            Sim::compute(std::time::Duration::from_nanos(ns - Sim::now().as_ns()));
        };
        let others = Arc::clone(&line);
        let other = pinned(CpuId(2), move || {
            wait_until(begin);
            others.word.fetch_add(1, AcqRel);
        });
        let took = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let tells = Arc::clone(&took);
        let owner = pinned(CpuId(0), move || {
            line.word.fetch_add(1, AcqRel);
            // Reading the clock takes 20 ns.
            wait_until(begin - 17);
            let start = Sim::now();
            line.word.fetch_add(1, AcqRel);
            tells.store(Sim::now().ns_since(start), Relaxed);
        });
        other.join();
        owner.join();
        took.load(Relaxed)
    });
    run.unwrap().value
}

#[test]
fn an_owner_has_its_line_until_a_request_is_there() {
    let (at_once, later) = (owners_add_ns(""), owners_add_ns("request_ns = 15\n"));
    // Including the clock's 20 ns: an add that hits, and one that waits until the other CPU has the line and
    // returns it.
    assert_eq!(later, 27, "where the other's request is on its way");
    assert!((65..70).contains(&at_once), "{at_once} ns, of 20, 22 and 25");
}

/// Two lines in 128 aligned bytes.
#[repr(C, align(128))]
struct Pair {
    first: AtomicU64,
    _rest: [u64; 7],
    second: AtomicU64,
}

impl Pair {
    fn several(count: usize) -> Arc<Vec<Self>> {
        let word = || AtomicU64::new(0);
        let pair = |_| Self { first: word(), _rest: [0; 7], second: word() };
        Arc::new((0..count).map(pair).collect())
    }
}

/// Returns the cost of an add to a pair's second word, in nanoseconds. The CPU wrote both words, and another
/// CPU has added to the first since.
fn add_to_the_second_ns(arbitration: &str) -> f64 {
    const PAIRS: usize = 100;
    let machine = two_sockets(arbitration);
    let run = Simulation::new(&machine).run(|| {
        let pairs = Pair::several(PAIRS);
        let on = |cpu: u32, act: fn(&Pair)| {
            let pairs = Arc::clone(&pairs);
            let took = Arc::new(std::sync::atomic::AtomicU64::new(0));
            let tells = Arc::clone(&took);
            pinned(CpuId(cpu), move || {
                let start = Sim::now();
                pairs.iter().for_each(act);
                tells.store(Sim::now().ns_since(start), Relaxed);
            })
            .join();
            took.load(Relaxed) as f64 / PAIRS as f64
        };
        on(0, |pair| {
            pair.first.store(1, Relaxed);
            pair.second.store(1, Relaxed);
        });
        on(2, |pair| assert_eq!(pair.first.fetch_add(1, AcqRel), 1));
        on(0, |pair| assert_eq!(pair.second.fetch_add(1, AcqRel), 1))
    });
    run.unwrap().value
}

#[test]
fn the_other_line_of_a_pair_comes_along_where_the_machine_says_so() {
    let (alone, pairs) = (add_to_the_second_ns(""), add_to_the_second_ns("pair_prefetch = true\n"));
    assert!((6.0..8.0).contains(&alone), "{alone} ns of 6.92");
    assert!((24.0..32.0).contains(&pairs), "{pairs} ns of 25");
}

/// CPUs wait for words on one pair of lines. They contend no more than for words on separate pairs, and less
/// than on one line.
#[test]
fn the_other_line_of_a_pair_is_left_where_others_wait_for_it() {
    let machine = Machine::from_toml("skylake", SKYLAKE).unwrap();
    let ns = |apart: usize| {
        let run = Simulation::new(&machine).run(|| {
            let words = Pair::several(2);
            let begin = Arc::new(Line::new());
            let threads: Vec<_> = (0..4)
                .map(|cpu: u32| {
                    let (words, begin) = (Arc::clone(&words), Arc::clone(&begin));
                    pinned(CpuId(cpu), move || {
                        begin.word.fetch_add(1, AcqRel);
                        while begin.word.load(Relaxed) < 4 {
                            Sim::spin_hint();
                        }
                        // Two CPUs for each of two words.
                        let word = match (cpu % 2, apart) {
                            (0, _) | (_, 0) => &words[0].first,
                            (_, 64) => &words[0].second,
                            _ => &words[1].first,
                        };
                        (0..200).for_each(|_| {
                            word.fetch_add(1, AcqRel);
                        });
                    })
                })
                .collect();
            let start = Sim::now();
            threads.into_iter().for_each(ThreadHandle::join);
            Sim::now().ns_since(start)
        });
        run.unwrap().value
    };
    let (one, near, far) = (ns(0), ns(64), ns(128));
    assert!(near * 10 < far * 11, "{near} ns with both on one pair, {far} on two");
    assert!(near * 10 < one * 7, "{near} ns with both on one pair, {one} with all on one line");
}

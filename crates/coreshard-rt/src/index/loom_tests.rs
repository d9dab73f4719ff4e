//! Models of `set` against `find`, for every variant. `README.md`, "Models", lists the weakened orderings and
//! omitted steps with which each of them fails.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use coreshard_platform::{ByteAtomics, Loom};

use super::*;

fn check(model: impl Fn(Rung) + Send + Sync + 'static) {
    let model = Arc::new(model);
    for variant in Rung::ALL {
        let model = Arc::clone(&model);
        // The case of two searches that mistake each other's doubt for their own needs three.
        Loom::check(4, move || model(variant));
    }
}

fn level(level: usize) -> Level {
    Level::from_index(level)
}

type Index = Arc<PriorityIndex<Loom>>;

/// The marks that earlier searches have left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marks {
    /// All levels are marked, as in the long run: a CPU that enters one writes no mark.
    Steady,
    /// A failed search has cleared the marks of the levels without a CPU, and raised the bound. A CPU that
    /// enters one has to mark it.
    Clean,
}

/// Creates an index over one CPU of one cache for each given level, at that level.
fn index(
    variant: Rung,
    levels: &[usize],
    marks: Marks,
) -> (Index, CpuMask, Vec<LevelWriter<Loom>>) {
    let machine = format!("pack:1 l3:1 core:{} pu:1", levels.len());
    let machine = Topology::from_synthetic(&machine).unwrap();
    let (index, mut writers) = PriorityIndex::new(variant, &machine, machine.online()).unwrap();
    if marks == Marks::Steady {
        (1..Level::COUNT).for_each(|at| writers[0].set(level(at)));
    }
    for (writer, at) in writers.iter_mut().zip(levels) {
        writer.set(level(*at));
    }
    let mask = index.mask(machine.online()).unwrap();
    if marks == Marks::Clean {
        let lowest = level(levels.iter().copied().min().unwrap_or(0));
        assert_eq!(index.find(lowest, &mask, CpuId(0)), None);
    }
    (index, mask, writers)
}

/// A CPU is raised twice, below the requested level: a search finds it at any time. It runs beside one that
/// is above, and beside one that stays behind and keeps the level's count from being 0.
#[test]
fn loom_a_cpu_being_raised_is_never_missed() {
    for marks in [Marks::Steady, Marks::Clean] {
        check(move |variant| raised_beside(variant, &[1, 6], marks));
        check(move |variant| raised_beside(variant, &[1, 1], marks));
    }
}

/// The same with releases and acquires alone, if only the first level loses its last CPU.
#[test]
fn loom_a_cpu_being_raised_is_never_missed_by_releases_and_acquires() {
    Loom::weakened(|| {
        check(|variant| raised_beside(variant, &[1, 3, 5], Marks::Steady));
        check(|variant| raised_beside(variant, &[1, 1, 3, 5], Marks::Steady));
    });
}

fn raised_beside(variant: Rung, levels: &[usize], marks: Marks) {
    let (index, _, mut writers) = index(variant, levels, marks);
    let mask = index.mask(&[CpuId(0)].into_iter().collect()).unwrap();
    let mut raised = writers.remove(0);
    let setter = loom::thread::spawn(move || {
        raised.set(level(3));
        raised.set(level(5));
        raised
    });
    let found = index.find(level(6), &mask, CpuId(1));
    assert_eq!(found.map(|(cpu, _)| cpu), Some(CpuId(0)), "{variant}");
    let raised = setter.join().unwrap();
    assert_eq!(index.find(level(6), &mask, CpuId(1)), Some((CpuId(0), level(5))));
    drop((raised, writers));
}

/// One CPU has left a level and another enters it, while a search finds it empty. The level keeps or gets its
/// mark, and the entering CPU is found.
#[test]
fn loom_a_level_that_is_entered_anew_stays_marked() {
    check(|variant| {
        // The first CPU has left level 1, so its bit is stale.
        let (index, mask, mut writers) = index(variant, &[1, 4], Marks::Clean);
        writers[0].set(level(5));
        let mut enters = writers.remove(1);
        let setter = loom::thread::spawn(move || {
            enters.set(level(1));
            enters
        });
        let _ = index.find(level(2), &mask, CpuId(0));
        let enters = setter.join().unwrap();
        assert_eq!(index.find(level(2), &mask, CpuId(0)), Some((CpuId(1), level(1))), "{variant}");
        drop((enters, writers));
    });
}

/// As above with two concurrent searches that may both clear. A late one must not take the other's doubt
/// for its own.
#[test]
fn loom_two_searches_clear_for_themselves_alone() {
    check(|variant| {
        let (index, mask, mut writers) = index(variant, &[1, 4], Marks::Steady);
        writers[0].set(level(5));
        let mut enters = writers.remove(1);
        let other = Arc::clone(&index);
        let searcher = loom::thread::spawn(move || {
            let _ = other.find(level(2), &mask, CpuId(0));
        });
        let setter = loom::thread::spawn(move || {
            enters.set(level(1));
            enters
        });
        let _ = index.find(level(2), &mask, CpuId(0));
        searcher.join().unwrap();
        let enters = setter.join().unwrap();
        assert_eq!(index.find(level(2), &mask, CpuId(0)), Some((CpuId(1), level(1))), "{variant}");
        drop((enters, writers));
    });
}

/// A thread publishes that a task waits, and then searches. A CPU lowers its level, and then checks for
/// waiting tasks. One of the two sees the other.
#[test]
fn loom_a_cpu_that_comes_down_is_found_or_sees_that_a_task_waits() {
    for marks in [Marks::Steady, Marks::Clean] {
        check(move |variant| comes_down(variant, marks));
    }
}

fn comes_down(variant: Rung, marks: Marks) {
    let (index, mask, mut writers) = index(variant, &[5, 6], marks);
    let waits = Arc::new(loom::sync::atomic::AtomicU32::new(0));
    // loom treats a first value as unordered with everything.
    waits.store(0, SeqCst);
    let mut comes_down = writers.remove(0);
    let flag = Arc::clone(&waits);
    let setter = loom::thread::spawn(move || {
        comes_down.set(level(1));
        (flag.load(SeqCst) == 1, comes_down)
    });
    // As the executor does it.
    waits.store(1, SeqCst);
    Loom::fence();
    let found = index.find(level(3), &mask, CpuId(1)).is_some();
    let (seen, writer) = setter.join().unwrap();
    assert!(found || seen, "{variant}");
    drop((writer, writers));
}

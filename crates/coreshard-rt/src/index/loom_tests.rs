//! Models of set against find, on every rung. Each was seen to fail when the ordering or the step
//! that its comment names was weakened.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use coreshard_platform::{AtomicInt, ByteAtomics};

use super::*;
use coreshard_platform::Loom;

/// A byte of loom's.
#[derive(Debug)]
pub(crate) struct LoomByte(loom::sync::atomic::AtomicU8);

macro_rules! forward {
    ($($name:ident),+) => {
        $(fn $name(&self, value: u8, order: std::sync::atomic::Ordering) -> u8 {
            self.0.$name(value, order)
        })+
    };
}

impl AtomicInt<u8> for LoomByte {
    fn new(value: u8) -> Self {
        Self(loom::sync::atomic::AtomicU8::new(value))
    }
    fn load(&self, order: std::sync::atomic::Ordering) -> u8 {
        self.0.load(order)
    }
    fn store(&self, value: u8, order: std::sync::atomic::Ordering) {
        self.0.store(value, order);
    }
    fn compare_exchange(
        &self,
        current: u8,
        new: u8,
        success: std::sync::atomic::Ordering,
        failure: std::sync::atomic::Ordering,
    ) -> Result<u8, u8> {
        self.0.compare_exchange(current, new, success, failure)
    }
    forward!(swap, fetch_add, fetch_sub, fetch_or, fetch_and);
}

impl ByteAtomics for Loom {
    type AtomicU8 = LoomByte;

    fn fence() {
        loom::sync::atomic::fence(SeqCst);
    }

    // loom takes sequentially consistent accesses for acquiring and releasing ones.
    fn fence_of_model() {
        if MODEL_FENCES.get() {
            Self::fence();
        }
    }
}

thread_local! {
    /// Whether loom gets fences for sequential consistency. Without them, a model that needs none
    /// shows what releases and acquires do.
    static MODEL_FENCES: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

fn check(model: impl Fn(Rung) + Send + Sync + 'static) {
    let model = Arc::new(model);
    for rung in Rung::ALL {
        let model = Arc::clone(&model);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || model(rung));
    }
}

fn level(level: usize) -> Level {
    Level::from_index(level)
}

type Index = Arc<PriorityIndex<Loom>>;

/// As many CPUs of one cache as levels are given, each at its level.
fn index(rung: Rung, levels: &[usize]) -> (Index, CpuChoice, Vec<Seat<Loom>>) {
    let machine = format!("pack:1 l3:1 core:{} pu:1", levels.len());
    let machine = Topology::from_synthetic(&machine).unwrap();
    let (index, mut seats) = PriorityIndex::new(rung, &machine, machine.online()).unwrap();
    for (seat, at) in seats.iter_mut().zip(levels) {
        seat.set(level(*at));
    }
    let choice = index.choice(machine.online()).unwrap();
    (index, choice, seats)
}

/// A CPU that is raised twice, below the level that is asked for: a search finds it at any time. Beside
/// one that is above, and beside one that stays behind and keeps the level's count from being 0.
///
/// Fails with the old level left before the new one is entered, and with the releases of the leave
/// made relaxed.
#[test]
fn loom_a_cpu_being_raised_is_never_missed() {
    MODEL_FENCES.set(false);
    check(|rung| (raised_beside(rung, 6), raised_beside(rung, 1)).0);
    MODEL_FENCES.set(true);
}

fn raised_beside(rung: Rung, other: usize) {
    let (index, _, mut seats) = index(rung, &[1, other]);
    let choice = index.choice(&[CpuId(0)].into_iter().collect()).unwrap();
    let mut raised = seats.remove(0);
    let setter = loom::thread::spawn(move || {
        raised.set(level(3));
        raised.set(level(5));
        raised
    });
    let found = index.find(level(6), &choice, CpuId(1));
    assert_eq!(found.map(|(cpu, _)| cpu), Some(CpuId(0)), "{rung}");
    let raised = setter.join().unwrap();
    assert_eq!(index.find(level(6), &choice, CpuId(1)), Some((CpuId(0), level(5))));
    drop((raised, seats));
}

/// A level that one CPU has left and another enters, while a search finds it empty: it keeps, or
/// gets, its mark, and the one that entered is found.
///
/// Fails with a level's bit cleared without a doubt, and with an entry that does not look for one;
/// with a CPU that comes down without looking for a doubt of the bound, and without either of the
/// fences of per-llc. (loom knows enough of sequentially consistent accesses not to need the others.)
#[test]
fn loom_a_level_that_is_entered_anew_stays_marked() {
    check(|rung| {
        // The first CPU has left level 1, so its bit is stale.
        let (index, choice, mut seats) = index(rung, &[1, 4]);
        seats[0].set(level(5));
        let mut enters = seats.remove(1);
        let setter = loom::thread::spawn(move || {
            enters.set(level(1));
            enters
        });
        let _ = index.find(level(2), &choice, CpuId(0));
        let enters = setter.join().unwrap();
        assert_eq!(index.find(level(2), &choice, CpuId(0)), Some((CpuId(1), level(1))), "{rung}");
        drop((enters, seats));
    });
}

/// As above with two searches at once, each of which may clear: a late one must not take the
/// other's doubt for its own.
///
/// Fails with per-llc's doubts not numbered; for the occupied levels there is the argument in
/// `README.md`.
#[test]
fn loom_two_searches_clear_for_themselves_alone() {
    check(|rung| {
        let (index, choice, mut seats) = index(rung, &[1, 4]);
        seats[0].set(level(5));
        let mut enters = seats.remove(1);
        let other = Arc::clone(&index);
        let searcher = loom::thread::spawn(move || {
            let _ = other.find(level(2), &choice, CpuId(0));
        });
        let setter = loom::thread::spawn(move || {
            enters.set(level(1));
            enters
        });
        let _ = index.find(level(2), &choice, CpuId(0));
        searcher.join().unwrap();
        let enters = setter.join().unwrap();
        assert_eq!(index.find(level(2), &choice, CpuId(0)), Some((CpuId(1), level(1))), "{rung}");
        drop((enters, seats));
    });
}

/// At rest: a thread says that a task waits, and then searches; a CPU comes down, and then looks
/// whether a task waits. One of the two sees the other.
///
/// Fails without the fence after a byte.
#[test]
fn loom_a_cpu_that_comes_down_is_found_or_sees_that_a_task_waits() {
    check(|rung| {
        let (index, choice, mut seats) = index(rung, &[5, 6]);
        let waits = Arc::new(loom::sync::atomic::AtomicU32::new(0));
        let mut comes_down = seats.remove(0);
        let flag = Arc::clone(&waits);
        let setter = loom::thread::spawn(move || {
            comes_down.set(level(1));
            (flag.load(SeqCst) == 1, comes_down)
        });
        waits.fetch_add(1, SeqCst);
        Loom::fence();
        let found = index.find(level(3), &choice, CpuId(1)).is_some();
        let (seen, seat) = setter.join().unwrap();
        assert!(found || seen, "{rung}");
        drop((seat, seats));
    });
}

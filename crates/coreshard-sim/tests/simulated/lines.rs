//! The report of lines names the fields that share one, and only those.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Padded, Platform, ThreadHandle, fields};
use coreshard_sim::{LineReport, Machine, Sim, Simulation};
use coreshard_topology::CpuId;

use crate::machines::TWO_SOCKETS;
use crate::programs::{AtomicU64, pinned};

/// A device with its two counters on one line.
#[repr(C, align(128))]
struct Packed {
    depth: u64,
    issued: AtomicU64,
    done: AtomicU64,
}
fields!(Packed { depth, issued, done });

#[repr(C)]
struct Apart {
    depth: u64,
    issued: Padded<AtomicU64>,
    done: Padded<AtomicU64>,
}
fields!(Apart { depth, issued, done });

trait Device: Send + Sync + 'static {
    fn issued(&self) -> &AtomicU64;
    fn done(&self) -> &AtomicU64;
}

impl Device for Packed {
    fn issued(&self) -> &AtomicU64 {
        &self.issued
    }
    fn done(&self) -> &AtomicU64 {
        &self.done
    }
}

impl Device for Apart {
    fn issued(&self) -> &AtomicU64 {
        &self.issued
    }
    fn done(&self) -> &AtomicU64 {
        &self.done
    }
}

/// The result of an operation is used. Otherwise it would be a tail call, and this function would not be on
/// the stack.
#[inline(never)]
fn issue(device: &impl Device) {
    black_box(device.issued().fetch_add(1, Relaxed));
}

#[inline(never)]
fn complete(device: &impl Device) {
    black_box(device.done().fetch_add(1, Relaxed));
}

fn report<D: Device + coreshard_platform::Fields>(device: impl FnOnce() -> D) -> LineReport {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let run = Simulation::new(&machine).record_lines(true).run(|| {
        let device = Arc::new(device());
        Sim::describe(&raw const *device);
        let theirs = Arc::clone(&device);
        // CPU 8 is on the other package.
        let other = pinned(CpuId(8), move || (0..5_000).for_each(|_| complete(&*theirs)));
        let one = pinned(CpuId(0), move || (0..5_000).for_each(|_| issue(&*device)));
        one.join();
        other.join();
    });
    run.unwrap().lines.unwrap()
}

#[test]
fn two_counters_on_one_line_are_both_named_with_their_functions() {
    let report =
        report(|| Packed { depth: 64, issued: AtomicU64::new(0), done: AtomicU64::new(0) });
    let first = &report.lines[0];
    assert_eq!(first.fields, ["Packed.issued", "Packed.done"], "{report}");
    assert!(first.hitm_remote > 500 && first.hitm_local == 0, "{report}");
    let [issued, done] = &first.rows[..] else { panic!("{report}") };
    assert_eq!((issued.offset, done.offset), (8, 16));
    assert!(issued.function.contains("issue") && done.function.contains("complete"), "{report}");
    assert!((99.9..100.1).contains(&(issued.hitm_remote + done.hitm_remote)), "{report}");
    // There and back again, 192 ns each way, at 2.6 GHz.
    assert!((990.0..1_000.0).contains(&issued.load_cycles_mean), "{report}");

    let rows: serde_json::Value = serde_json::from_str(&report.rows_json()).unwrap();
    assert_eq!(rows[0]["field"], "Packed.issued");
    assert_eq!(rows[1]["field"], "Packed.done");
    for key in ["line", "offset", "function", "hitm_local", "stores", "records"] {
        assert!(!rows[0][key].is_null(), "{key}");
    }
    let text = report.to_string();
    assert!(text.lines().next().unwrap().contains("Packed.issued, Packed.done"), "{text}");
}

#[test]
fn counters_on_lines_of_their_own_are_not_reported() {
    let report = report(|| Apart {
        depth: 64,
        issued: Padded::new(AtomicU64::new(0)),
        done: Padded::new(AtomicU64::new(0)),
    });
    let named = report.lines.iter().flat_map(|line| &line.fields);
    assert!(!named.into_iter().any(|field| field.starts_with("Apart.")), "{report}");
}

#[repr(C)]
struct Host {
    id: u64,
    device: Packed,
}
fields!(Host { id, device });

#[test]
fn a_field_of_a_field_is_named_by_its_way_and_memory_in_new_use_by_its_new_name() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let run = Simulation::new(&machine).record_lines(true).run(|| {
        let device = || Packed { depth: 64, issued: AtomicU64::new(0), done: AtomicU64::new(0) };
        let hosts: Arc<[Host]> = (0..2).map(|id| Host { id, device: device() }).collect();
        Sim::describe(&raw const hosts[0]);
        Sim::describe(&raw const hosts[0].device);
        // The second one held another object before, and no trace of that remains.
        Sim::describe(&raw const hosts[1].device);
        Sim::describe(&raw const hosts[1]);
        for host in 0..2 {
            let (one, other) = (Arc::clone(&hosts), Arc::clone(&hosts));
            let one = pinned(CpuId(8), move || (0..99).for_each(|_| issue(&one[host].device)));
            let other = pinned(CpuId(0), move || (0..99).for_each(|_| issue(&other[host].device)));
            one.join();
            other.join();
        }
    });
    let report = run.unwrap().lines.unwrap();
    let named = |name: &str| report.lines.iter().any(|line| line.fields == [name]);
    assert!(named("Host.device.issued") && named("Host.device"), "{report}");
}

/// The report uses a line's name at the time of use, whatever it becomes later.
#[test]
fn memory_that_gets_another_use_is_called_each_time_what_it_is_then() {
    fn contend<D: Device + coreshard_platform::Fields>(device: D) -> usize {
        let device = Arc::new(device);
        Sim::describe(&raw const *device);
        let (one, other) = (Arc::clone(&device), Arc::clone(&device));
        let one = pinned(CpuId(8), move || (0..99).for_each(|_| issue(&*one)));
        let other = pinned(CpuId(0), move || (0..99).for_each(|_| complete(&*other)));
        one.join();
        other.join();
        Arc::as_ptr(&device).addr()
    }
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let run = Simulation::new(&machine).record_lines(true).run(|| {
        let packed = || Packed { depth: 64, issued: AtomicU64::new(0), done: AtomicU64::new(0) };
        [contend(packed()), contend(Pair(packed())), contend(packed())]
    });
    let run = run.unwrap();
    let [first, second, third] = run.value;
    assert!(first == second && second == third, "the same memory, three times");
    let report = run.lines.unwrap();
    let records = |field: &str| {
        let rows = report.rows().filter(|row| row.field == field);
        rows.map(|row| row.records).sum::<u64>()
    };
    let found = ["Packed.issued", "Packed.done", "Pair.both"].map(records);
    assert_eq!(found, [198, 198, 198], "{report}");
}

/// Like [`Packed`], but without a description of its fields.
#[repr(transparent)]
struct Pair(Packed);

impl coreshard_platform::Fields for Pair {
    const NAME: &'static str = "Pair";
    const FIELDS: &'static [(&'static str, usize)] = &[("both", 0)];
}

impl Device for Pair {
    fn issued(&self) -> &AtomicU64 {
        &self.0.issued
    }
    fn done(&self) -> &AtomicU64 {
        &self.0.done
    }
}

/// Accesses before and after the measured part, and of threads that have left it, do not count.
#[test]
fn only_the_measured_part_is_reported() {
    let machine = Machine::from_toml("two sockets", TWO_SOCKETS).unwrap();
    let run = Simulation::new(&machine).record_lines(true).run(|| {
        let packed = || Packed { depth: 64, issued: AtomicU64::new(0), done: AtomicU64::new(0) };
        let device = Arc::new(packed());
        Sim::describe(&raw const *device);
        let both = |times: usize, ends: bool| {
            let (one, other) = (Arc::clone(&device), Arc::clone(&device));
            let one = pinned(CpuId(8), move || {
                (0..times).for_each(|_| issue(&*one));
                if ends {
                    Sim::measured(false);
                    (0..50).for_each(|_| issue(&*one));
                }
            });
            let other = pinned(CpuId(0), move || (0..times).for_each(|_| complete(&*other)));
            one.join();
            other.join();
        };
        both(500, false);
        Sim::measured(true);
        both(100, true);
        Sim::measured(false);
        both(500, false);
    });
    let report = run.unwrap().lines.unwrap();
    let row = |field: &str| report.rows().find(|row| row.field == field).unwrap();
    let [issued, done] = ["Packed.issued", "Packed.done"].map(row);
    assert_eq!((issued.records, done.records), (100, 100), "{report}");
    assert_eq!((issued.cpus, done.cpus), (1, 1));
    let line = &report.lines[0];
    // CPU 8, which accesses it first, is on the second node.
    assert_eq!((line.cpus, line.node), (2, Some(1)));
    // Names have no type arguments, and each access has its place.
    assert!(!issued.function.contains('<') && issued.source.starts_with("lines.rs:"), "{report}");
    assert!(issued.hitm_remote_cycles_mean > 0.0 && issued.hitm_local_cycles_mean == 0.0);
    assert!(report.rows().map(|row| row.store_misses).sum::<f64>() > 99.0, "{report}");
}

//! Programs that run forever are reported.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use coreshard_platform::{AtomicInt, ThreadHandle};
use coreshard_sim::{Machine, Sim, SimError, Simulation};
use coreshard_topology::CpuId;

use crate::programs::{Line, pinned};

fn error_of(program: impl FnOnce()) -> String {
    let machine = Machine::pocket();
    let run = Simulation::new(&machine).progress_limit(50_000).run(program);
    let Err(error @ SimError::Broken { .. }) = run else { panic!("it ends: {:?}", run.err()) };
    error.to_string()
}

/// Each takes back what the other one has done.
#[test]
fn a_livelock_is_reported_with_each_threads_last_access() {
    let error = error_of(|| {
        let line = Arc::new(Line::new());
        let threads: Vec<_> = [1, 2]
            .map(|number| {
                let line = Arc::clone(&line);
                pinned(CpuId(number as u32), move || {
                    while line.word.load(Relaxed) != u64::MAX {
                        line.word.store(number, Relaxed);
                    }
                })
            })
            .into_iter()
            .collect();
        threads.into_iter().for_each(ThreadHandle::join);
    });
    assert!(error.contains("makes no progress"), "{error}");
    for thread in ["\"pinned to 1\" runs on CPU 1, and ", "\"pinned to 2\" runs on CPU 2, and "] {
        let line = error.lines().find(|line| line.contains(thread)).expect(&error);
        assert!(line.contains(file!()), "{line}");
    }
}

#[test]
fn a_spin_for_a_value_that_is_never_written_is_reported() {
    let error = error_of(|| {
        let line = Line::new();
        while line.word.load(Acquire) == 0 {}
    });
    assert!(error.contains("\"main\" runs on CPU 0, and loads "), "{error}");
}

#[test]
fn a_thread_that_only_computes_is_reported() {
    let error = error_of(|| {
        loop {
            Sim::compute(Duration::from_nanos(1));
        }
    });
    let words = "thread \"main\" makes no progress: it has computed ";
    assert!(error.contains(words) && error.contains(file!()), "{error}");
}

#[test]
fn a_computation_beyond_the_time_limit_ends() {
    let machine = Machine::pocket();
    let run = Simulation::new(&machine).time_limit(Duration::from_secs(1)).run(|| {
        loop {
            Sim::compute(Duration::from_millis(1));
        }
    });
    assert!(matches!(run, Err(SimError::TimeLimit(_))), "{:?}", run.err());
}

#[test]
fn a_program_that_reports_progress_runs_on() {
    let machine = Machine::pocket();
    let run = Simulation::new(&machine).progress_limit(1_000).run(|| {
        let line = Line::new();
        for _ in 0..500_000 {
            line.word.load(Relaxed);
            Sim::progress();
        }
    });
    assert!(run.is_ok(), "{:?}", run.err());
}

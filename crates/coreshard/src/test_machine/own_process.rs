//! The process's runtime on the test machine: the simulated process's inside a test, otherwise this process's.

use std::cell::{Cell, RefCell};
use std::panic::Location;

use coreshard_sim::Sim;
use coreshard_workqueue::{Runtime, RuntimeBuilder, Workqueue};

use super::{SimulatedProcess, TestMachine};
use crate::own_process::{Machine, Process, Settings, Slots, this_machine};
use crate::runtime_error::RuntimeError;

thread_local! {
    // All virtual threads of a simulation run on one host thread, which runs no other.
    static PROCESS: Cell<Option<&'static Process<TestMachine>>> = const { Cell::new(None) };
    static JOIN_QUEUE: RefCell<Option<Workqueue<TestMachine>>> = const { RefCell::new(None) };
}

/// For use outside tests.
static SLOTS: Slots<TestMachine> = Slots::new();

impl Machine for TestMachine {
    /// The queue of a simulated process ends with the process.
    type JoinQueue = Workqueue<Self>;

    #[track_caller]
    fn process() -> Result<&'static Process<Self>, RuntimeError> {
        if !Sim::is_running() {
            return SLOTS.get();
        }
        let made_at = Location::caller();
        match PROCESS.get() {
            Some(process) => Ok(process),
            // Another virtual thread may have created one.
            None => make(None, made_at).map(|made| made.unwrap_or_else(|first| first)),
        }
    }

    #[track_caller]
    fn configure(settings: Settings<Self>) -> Result<(), RuntimeError> {
        if !Sim::is_running() {
            return SLOTS.configure(settings);
        }
        make(Some(settings), Location::caller())?.map(|_| ()).map_err(Process::exists)
    }

    fn runtime_builder() -> Result<RuntimeBuilder<Self>, RuntimeError> {
        match SimulatedProcess::topology() {
            Some(topology) => Ok(Runtime::builder(topology)),
            None => this_machine(),
        }
    }

    #[track_caller]
    fn join_queue() -> Result<Workqueue<Self>, RuntimeError> {
        let process = Self::process()?;
        if !Sim::is_running() {
            return process.join_queue().cloned();
        }
        if let Some(queue) = JOIN_QUEUE.with_borrow(Clone::clone) {
            return Ok(queue);
        }
        let queue = process.new_join_queue()?;
        // Another virtual thread may have created one. This one is dropped after the borrow, since dropping it blocks.
        let first = JOIN_QUEUE.with_borrow_mut(|known| {
            let first = known.clone();
            known.get_or_insert_with(|| queue.clone());
            first
        });
        Ok(first.unwrap_or(queue))
    }
}

/// Creates the simulated process's runtime. Returns the existing one as `Err`.
///
/// It is never freed, as programs have `&'static` references to it. It is small once its queues have ended.
fn make(
    settings: Option<Settings<TestMachine>>,
    made_at: &'static Location<'static>,
) -> Result<Result<&'static Process<TestMachine>, &'static Process<TestMachine>>, RuntimeError> {
    if let Some(process) = PROCESS.get() {
        return Ok(Err(process));
    }
    let process = Process::new(settings, made_at)?;
    if let Some(first) = PROCESS.get() {
        return Ok(Err(first));
    }
    let process: &'static Process<TestMachine> = Box::leak(Box::new(process));
    PROCESS.set(Some(process));
    Ok(Ok(process))
}

impl SimulatedProcess {
    /// Returns the runtime of the simulated process, if it was made.
    pub(crate) fn runtime() -> Option<&'static Runtime<TestMachine>> {
        PROCESS.get().map(|process| &process.runtime)
    }

    /// Ends the join queue at the program's end, when no thread calls `join` any more.
    pub(crate) fn end_joins() {
        drop(JOIN_QUEUE.take());
    }
}

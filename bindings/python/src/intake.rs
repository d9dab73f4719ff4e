//! An executor's waiting calls and its *runners*: items of the shared queue. A runner runs calls one after the other
//! while there are any, so that the GIL is taken once for many short calls.
//!
//! 1. At most `max_workers` runners are inside calls at once.
//! 2. If a call waits and one more may run, a runner is *arriving*: queued, and not yet inside Python. There is at most
//!    one. It takes the first call, and starts the next runner before it runs that call. A call that blocks or releases
//!    the GIL therefore delays no other, and short calls wake no additional thread, which would only wait for the GIL.
//! 3. A runner leaves when it finds no call. Both are decided under the lock of `state`: the thread that adds a call
//!    either sees a runner that will check again, or starts one.
//! 4. A runner whose call waits may lend its place, until it takes it back (`lend`, `reclaim`) or until the call ends
//!    (`lend_until_end`). There may thus be more runners than `max_workers`, and a runner that returns to too many
//!    leaves.
//! 5. `state` is locked for a few instructions, without calls of Python.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr;
use std::sync::{Arc, Mutex, Weak};

use coreshard::ProcessGeneration;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::Call;
use crate::future::{Executes, FutureCore, Sleepers};
use crate::pools::{Calls, Pool};
use crate::process::{self, Ends, classes, lock, raised};
use crate::threads;
use crate::waiting::Changes;

/// The settings of an executor.
pub(crate) struct Settings {
    pub(crate) max_workers: usize,
    pub(crate) thread_name_prefix: String,
    pub(crate) initializer: Option<Call>,
    /// Calls use the CPU throughout: at most as many workers as CPUs take one.
    pub(crate) computes: bool,
}

/// An executor's waiting calls and its runners.
pub(crate) struct Intake {
    settings: Settings,
    pool: Arc<Pool>,
    made_in: ProcessGeneration,
    state: Mutex<State>,
    /// Changes when the last runner leaves, and when a place is free for a call that reclaims its own.
    changes: Changes,
}

#[derive(Default)]
struct State {
    pending: VecDeque<Py<FutureCore>>,
    /// Runners, including the arriving one.
    runners: usize,
    arriving: bool,
    /// Runners whose call has lent its place.
    lent: usize,
    /// Those that reclaim it.
    reclaiming: usize,
    is_shut_down: bool,
    is_broken: bool,
}

impl State {
    /// Returns the number of runners with a place.
    fn placed(&self) -> usize {
        self.runners.saturating_sub(self.lent)
    }
}

/// Returns the call that this thread runs.
fn call_here(py: Python<'_>) -> Option<Bound<'_, FutureCore>> {
    CALL.with_borrow(|call| call.as_ref().map(|call| call.bind(py).clone()))
}

thread_local! {
    /// The executor whose call this thread runs.
    static HERE: Cell<*const Intake> = const { Cell::new(ptr::null()) };
    /// That call.
    static CALL: RefCell<Option<Py<FutureCore>>> = const { RefCell::new(None) };
    /// The executor whose initializer this thread runs.
    static INITIALIZING: Cell<*const Intake> = const { Cell::new(ptr::null()) };
    /// The executors whose initializers this thread has run.
    static INITIALIZED: RefCell<Vec<Weak<Intake>>> = const { RefCell::new(Vec::new()) };
    /// The executor after which this thread is named.
    static NAMED: RefCell<Weak<Intake>> = const { RefCell::new(Weak::new()) };
}

const BROKEN: &str = "A thread initializer failed, the executor is not usable anymore";

impl Intake {
    pub(crate) fn new(settings: Settings, stack_bytes: usize) -> PyResult<Arc<Self>> {
        let calls = if settings.computes {
            Calls::Compute
        } else {
            Calls::Wait { at_once: settings.max_workers }
        };
        let intake = Arc::new(Self {
            settings,
            pool: Pool::of(calls, stack_bytes)?,
            made_in: ProcessGeneration::current(),
            state: Mutex::new(State::default()),
            changes: Changes::default(),
        });
        process::ends_before_interpreter(&intake);
        Ok(intake)
    }

    pub(crate) fn max_workers(&self) -> usize {
        self.settings.max_workers
    }

    pub(crate) fn is_broken(&self) -> bool {
        lock(&self.state).is_broken
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        lock(&self.state).is_shut_down
    }

    /// Returns true if this thread is inside one of its calls.
    fn is_here(&self) -> bool {
        ptr::eq(HERE.get(), self)
    }

    /// Accepts a call.
    pub(crate) fn submit(
        self: &Arc<Self>,
        py: Python<'_>,
        future: &Bound<'_, FutureCore>,
    ) -> PyResult<()> {
        if !self.made_in.is_current() {
            let message = "cannot schedule new futures: the executor's workers belong to the parent of this forked process; create an executor here";
            return Err(raised(py, &classes(py)?.broken_executor, Some(message)));
        }
        let refused = self.change(py, |state| {
            let refused = if state.is_broken {
                Some(BROKEN)
            } else if process::is_ending() {
                Some("cannot schedule new futures after interpreter shutdown")
            } else if state.is_shut_down {
                Some("cannot schedule new futures after shutdown")
            } else {
                None
            };
            if refused.is_none() {
                state.pending.push_back(future.clone().unbind());
            }
            (refused, refused.is_none())
        });
        match refused {
            None => Ok(()),
            Some(BROKEN) => Err(raised(py, &classes(py)?.broken_thread_pool, Some(BROKEN))),
            Some(why) => Err(PyRuntimeError::new_err(why)),
        }
    }

    /// Changes the state, and starts a runner if the change requires one.
    fn change<R>(
        self: &Arc<Self>,
        py: Python<'_>,
        change: impl FnOnce(&mut State) -> (R, bool),
    ) -> R {
        let (result, starts) = {
            let mut state = lock(&self.state);
            let (result, may_start) = change(&mut state);
            (result, may_start && self.wants_runner(&mut state))
        };
        if starts {
            self.start_runner(py);
        }
        result
    }

    /// Returns true if the caller must start a runner, which is counted.
    fn wants_runner(&self, state: &mut State) -> bool {
        let wants = !state.pending.is_empty()
            && !state.arriving
            && state.placed() < self.settings.max_workers;
        if wants {
            state.arriving = true;
            state.runners += 1;
        }
        wants
    }

    fn start_runner(self: &Arc<Self>, py: Python<'_>) {
        let intake = Arc::clone(self);
        if self.pool.run(py, move || intake.run()).is_err() {
            // The pool's queue belongs to another process.
            self.give_up(py);
        }
    }

    /// Cancels all waiting calls, since no runner will come.
    fn give_up(&self, py: Python<'_>) {
        let pending = {
            let mut state = lock(&self.state);
            state.arriving = false;
            self.leave(&mut state);
            std::mem::take(&mut state.pending)
        };
        cancel_all(py, pending);
    }

    fn leave(&self, state: &mut State) {
        state.runners -= 1;
        if state.runners == 0 || state.reclaiming > 0 {
            self.changes.tell();
        }
    }

    /// Runs calls on a worker.
    fn run(self: &Arc<Self>) {
        let sleepers = threads::on_worker(|py| {
            lock(&self.state).arriving = false;
            if !self.prepare_thread(py) {
                return None;
            }
            let before = HERE.replace(Arc::as_ptr(self));
            let mut sleepers: Option<Sleepers> = None;
            while let Some(future) = self.next(py) {
                if let Some(sleepers) = sleepers.take() {
                    sleepers.wake();
                }
                sleepers = self.run_call(future.bind(py));
            }
            HERE.set(before);
            sleepers
        });
        // Threads that wait for the last call are woken after the GIL is released, as they need it.
        if let Some(Some(sleepers)) = sleepers {
            sleepers.wake();
        }
    }

    /// Runs a call on this thread, unless it has started or was cancelled. The caller must wake the returned sleepers.
    fn run_call(&self, future: &Bound<'_, FutureCore>) -> Option<Sleepers> {
        let outer = CALL.replace(Some(future.clone().unbind()));
        let sleepers = FutureCore::run(future);
        CALL.set(outer);
        if future.get().is_lent() {
            lock(&self.state).lent -= 1;
        }
        sleepers
    }

    /// Lends the place of a running call until it ends, unless it is lent already.
    pub(crate) fn lend_until_end(self: &Arc<Self>, py: Python<'_>, future: &FutureCore) {
        self.change(py, |state| {
            // Under the lock: `run_call` takes back what it sees lent.
            let is_new = future.set_lent();
            if is_new {
                state.lent += usize::from(!future.is_lending());
                if state.reclaiming > 0 {
                    self.changes.tell();
                }
            }
            ((), is_new)
        });
    }

    /// The same for the call that this thread runs. No effect elsewhere.
    pub(crate) fn lend_this_until_end(self: &Arc<Self>, py: Python<'_>) {
        if let Some(call) = call_here(py).filter(|_| self.is_here()) {
            self.lend_until_end(py, call.get());
        }
    }

    /// Returns the next call; `None` if this runner has left.
    fn next(self: &Arc<Self>, py: Python<'_>) -> Option<Py<FutureCore>> {
        self.change(py, |state| {
            // One place is reserved for a call that reclaims its own.
            let kept = usize::from(state.reclaiming > 0);
            let has_place = state.placed() + kept <= self.settings.max_workers;
            let next = if has_place { state.pending.pop_front() } else { None };
            if next.is_none() {
                self.leave(state);
            }
            let is_some = next.is_some();
            (next, is_some)
        })
    }

    /// Prepares a thread for its first call. Returns false if that broke the executor; the runner has then left.
    fn prepare_thread(self: &Arc<Self>, py: Python<'_>) -> bool {
        let is_named = NAMED.with_borrow(|named| ptr::eq(named.as_ptr(), Arc::as_ptr(self)));
        if !is_named {
            NAMED.set(Arc::downgrade(self));
            if let Err(error) = threads::name_thread(py, &self.settings.thread_name_prefix) {
                error.write_unraisable(py, None);
            }
        }
        let Some(initializer) = &self.settings.initializer else { return true };
        let is_initialized = INITIALIZED.with_borrow(|known| {
            known.iter().any(|known| ptr::eq(known.as_ptr(), Arc::as_ptr(self)))
        });
        if is_initialized {
            return true;
        }
        let before = INITIALIZING.replace(Arc::as_ptr(self));
        let initialized = initializer.run(py);
        INITIALIZING.set(before);
        if !self.made_in.is_current() {
            process::leave_fork(py);
        }
        if let Err(error) = initialized {
            self.break_down(py, error);
            return false;
        }
        INITIALIZED.with_borrow_mut(|known| {
            known.retain(|known| known.strong_count() > 0);
            known.push(Arc::downgrade(self));
        });
        true
    }

    fn break_down(&self, py: Python<'_>, error: PyErr) {
        let told = (|| {
            let kwargs = PyDict::new(py);
            kwargs.set_item("exc_info", error.into_value(py))?;
            let logger = classes(py)?.logger.bind(py);
            logger.call_method("critical", ("Exception in initializer:",), Some(&kwargs)).map(drop)
        })();
        if let Err(error) = told {
            error.write_unraisable(py, None);
        }
        let pending = {
            let mut state = lock(&self.state);
            state.is_broken = true;
            self.leave(&mut state);
            std::mem::take(&mut state.pending)
        };
        for future in pending {
            match classes(py).map(|classes| raised(py, &classes.broken_thread_pool, Some(BROKEN))) {
                Ok(broken) => FutureCore::fail(future.bind(py), broken.into_value(py).into_any()),
                Err(error) => error.write_unraisable(py, None),
            }
        }
    }

    /// Stops accepting calls. If `cancels`, also cancels waiting calls, except one that a worker is about to run.
    pub(crate) fn shut_down(&self, py: Python<'_>, cancels: bool) {
        if !self.made_in.is_current() {
            return;
        }
        let pending = {
            let mut state = lock(&self.state);
            state.is_shut_down = true;
            let awaited = if state.arriving { state.pending.len().min(1) } else { 0 };
            if cancels { state.pending.split_off(awaited) } else { VecDeque::new() }
        };
        cancel_all(py, pending);
    }

    /// Waits until no call waits or runs.
    pub(crate) fn wait_until_idle(&self, py: Python<'_>) -> PyResult<()> {
        if !self.made_in.is_current() {
            return Ok(());
        }
        if self.is_here() || ptr::eq(INITIALIZING.get(), self) {
            return Err(PyRuntimeError::new_err(
                "an executor cannot be waited for inside one of its own calls: shutdown(wait=False)",
            ));
        }
        loop {
            let seen = self.changes.seen();
            if lock(&self.state).runners == 0 {
                return Ok(());
            }
            self.changes.wait(py, seen)?;
        }
    }

    /// Lends the place of the call that this thread runs, which is about to wait. Returns false elsewhere, and if it is
    /// lent already.
    pub(crate) fn lend(self: &Arc<Self>, py: Python<'_>) -> bool {
        let Some(call) = call_here(py).filter(|_| self.is_here()) else { return false };
        self.change(py, |state| {
            let is_new = !call.get().set_lending(true);
            if is_new {
                state.lent += usize::from(!call.get().is_lent());
            }
            (is_new, is_new)
        })
    }

    /// Waits for the place, before any call that has not started. Returns at once if it is lent until the call's end.
    pub(crate) fn reclaim(&self, py: Python<'_>) -> PyResult<()> {
        let Some(call) = call_here(py) else { return Ok(()) };
        let mut is_waiting = false;
        let mut waited = Ok(());
        loop {
            let seen = self.changes.seen();
            {
                let mut state = lock(&self.state);
                let is_lent = call.get().is_lent();
                if is_lent || waited.is_err() || state.placed() < self.settings.max_workers {
                    call.get().set_lending(false);
                    state.lent -= usize::from(!is_lent);
                    state.reclaiming -= usize::from(is_waiting);
                    return waited;
                }
                state.reclaiming += usize::from(!is_waiting);
                is_waiting = true;
            }
            waited = self.changes.wait(py, seen);
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let is_idle = self.state.try_lock().is_ok_and(|state| state.runners == 0);
        match &self.settings.initializer {
            Some(initializer) if is_idle => initializer.traverse(visit),
            _ => Ok(()),
        }
    }
}

impl Executes for Intake {
    fn run_if_here(&self, future: &Bound<'_, FutureCore>) -> Option<Sleepers> {
        if self.is_here() { self.run_call(future) } else { None }
    }
}

impl Ends for Intake {
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.wait_until_idle(py)
    }
}

fn cancel_all(py: Python<'_>, futures: VecDeque<Py<FutureCore>>) {
    for future in futures {
        if let Err(error) = FutureCore::cancel_for_good(future.bind(py)) {
            error.write_unraisable(py, None);
        }
    }
}

//! Shared by the cases: faults, a queue that counts reports, and processes with a deadline.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use coreshard_platform::Host;
use coreshard_topology::Topology;
use coreshard_workqueue::{Builder, Runtime, Workqueue};
use testing::{NEVER, wait_until};

/// The environment variable with the fault, set in a case's process.
const FAULT: &str = "CORESHARD_USER_CODE_FAULT";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The code panics with a text.
    Panics,
    /// The code panics, and the payload panics as it is dropped.
    PayloadPanics,
    /// The code returns, and its captures panic as they are dropped.
    HeldPanics,
}

const FAULTS: [Fault; 3] = [Fault::Panics, Fault::PayloadPanics, Fault::HeldPanics];

impl Fault {
    /// True if the code itself panics.
    pub(crate) fn is_thrown(self) -> bool {
        self != Self::HeldPanics
    }

    pub(crate) fn arm(self) -> Armed {
        Armed { fault: self, is_loaded: true }
    }
}

/// A part of user code that panics when it is called or dropped.
pub(crate) struct Armed {
    fault: Fault,
    is_loaded: bool,
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a panic payload panics as it is dropped");
    }
}

impl Armed {
    pub(crate) fn call(&self) {
        match self.fault {
            Fault::Panics => panic!("the code panics"),
            Fault::PayloadPanics => panic_any(Bomb),
            Fault::HeldPanics => {}
        }
    }

    /// Drops it without a panic.
    pub(crate) fn unload(mut self) {
        self.is_loaded = false;
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        // A second panic during an unwinding would abort the process.
        if self.is_loaded && self.fault == Fault::HeldPanics && !std::thread::panicking() {
            panic!("a capture panics as it is dropped");
        }
    }
}

/// Starts a process for each fault of a case, or runs the case if this is such a process.
pub(crate) fn attack(name: &str, case: fn(Fault)) {
    if let Ok(wanted) = std::env::var(FAULT) {
        let fault = FAULTS.into_iter().find(|fault| format!("{fault:?}") == wanted);
        case(fault.expect("a fault's name"));
        return;
    }
    for fault in FAULTS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&format!("user_code::{name}"), "--exact", "--nocapture", "--test-threads=1"])
            .env(FAULT, format!("{fault:?}"))
            .env("RUST_BACKTRACE", "0")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let said = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if begun.elapsed() > NEVER + NEVER / 2 {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = said.join().unwrap();
        match status {
            Some(status) => assert!(status.success(), "{name}, {fault:?}: {status}\n{said}"),
            None => panic!("{name}, {fault:?}: it hangs\n{said}"),
        }
    }
}

/// A runtime with one worker, and a queue that counts the calls of its panic handler.
pub(crate) struct Rig {
    pub(crate) runtime: Runtime<Host>,
    pub(crate) queue: Workqueue<Host>,
    reports: Arc<AtomicUsize>,
}

pub(crate) fn runtime() -> Runtime<Host> {
    let topology = Topology::from_synthetic("package:1 l3:1 core:1 pu:1").unwrap();
    let real = coreshard_platform::affinity().unwrap();
    Runtime::builder(topology).laid_over(real).build().unwrap()
}

/// Leaks the reported panics, so that only their number matters.
fn counting<'runtime>(
    builder: Builder<'runtime, Host>,
    reports: &Arc<AtomicUsize>,
) -> Builder<'runtime, Host> {
    let reports = Arc::clone(reports);
    builder.panic_handler(move |payload: Box<dyn Any + Send>| {
        std::mem::forget(payload);
        reports.fetch_add(1, SeqCst);
    })
}

impl Rig {
    pub(crate) fn new() -> Self {
        let (runtime, reports) = (runtime(), Arc::default());
        let queue = counting(runtime.workqueue(), &reports).build().unwrap();
        Self { runtime, queue, reports }
    }

    /// A further queue, whose reports are counted with the others.
    pub(crate) fn other_queue(&self) -> Workqueue<Host> {
        counting(self.runtime.workqueue(), &self.reports).build().unwrap()
    }

    /// Keeps the worker busy until it is dropped.
    pub(crate) fn hold_worker(&self) -> Held {
        let (begun, over) = (Flag::default(), Flag::default());
        let (tells, waits) = (begun.clone(), over.clone());
        self.queue
            .queue(move || {
                tells.set();
                waits.wait();
            })
            .unwrap();
        begun.wait();
        Held(over)
    }

    /// Asserts that the next item runs and that all panics were reported, none twice. Drops the queue.
    pub(crate) fn expect_reports(self, expected: usize) {
        let Self { runtime, queue, reports } = self;
        wait_until("all panics are reported", || reports.load(SeqCst) >= expected);
        let next = queue.submit(|| 7).unwrap();
        assert_eq!(next.join().unwrap(), 7, "the next item runs");
        let nap = queue.spawn(runtime.sleep(Duration::from_millis(1)).unwrap()).unwrap();
        wait_until("the timekeeper lives", || nap.is_finished());
        drop((nap, queue));
        assert_eq!(reports.load(SeqCst), expected, "each panic is reported once");
    }
}

/// See [`Rig::hold_worker`].
pub(crate) struct Held(Flag);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.set();
    }
}

#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn set(&self) {
        self.0.store(true, SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(SeqCst)
    }

    pub(crate) fn wait(&self) {
        wait_until("a flag is set", || self.is_set());
    }
}

/// Sets its flag when it is dropped.
pub(crate) struct TellsDrop(pub(crate) Flag);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Returns true if it panicked: then the owner was told. Leaks the payload.
pub(crate) fn is_told(code: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(()) => false,
        Err(payload) => {
            std::mem::forget(payload);
            true
        }
    }
}

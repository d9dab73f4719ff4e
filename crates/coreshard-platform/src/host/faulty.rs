//! This machine, with thread starts that fail when a test says so. Requires the feature `faulty`.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::thread::{self, HostThread};
use crate::{SpawnError, ThreadSpec};

/// [`Host`](crate::Host), except that a test decides which threads start; see [`Faulty::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faulty;

type Decide = dyn Fn(&Start<'_>) -> io::Result<()> + Send + Sync;

/// A test's closure, and the number of starts it has decided.
struct Script {
    decide: Box<Decide>,
    starts: AtomicU64,
}

/// The closure in force; `None` if all threads start.
static SCRIPT: Mutex<Option<Arc<Script>>> = Mutex::new(None);
/// Held by a test while its faults are in force, so that one test of a process runs at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A thread that is about to start.
#[derive(Debug)]
pub struct Start<'spec> {
    /// The number of starts since the faults began, including this one.
    pub number: u64,
    /// The thread's options.
    pub spec: &'spec ThreadSpec,
}

/// Keeps a test's faults in force until it is dropped. Other tests of the process wait for it.
#[must_use = "starts fail while this lives"]
pub struct Faults {
    script: Arc<Script>,
    _turn: MutexGuard<'static, ()>,
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faults").field("starts", &self.starts()).finish_non_exhaustive()
    }
}

impl Faulty {
    /// Calls `decide` before each thread start on this platform, on the thread that starts it.
    ///
    /// An error makes the start fail with that error. `decide` may block, as the kernel may before it
    /// refuses.
    pub fn decide(decide: impl Fn(&Start<'_>) -> io::Result<()> + Send + Sync + 'static) -> Faults {
        // A test that failed with faults in force must not prevent the next one.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let script = Arc::new(Script { decide: Box::new(decide), starts: AtomicU64::new(0) });
        *SCRIPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&script));
        Faults { script, _turn: turn }
    }

    /// Makes the starts selected by `which` fail as if there were too many threads.
    ///
    /// Starts are counted from 1, from this call on.
    pub fn fail_starts(which: impl Fn(u64) -> bool + Send + Sync + 'static) -> Faults {
        Self::decide(move |start| if which(start.number) { Err(Self::refusal()) } else { Ok(()) })
    }

    /// Returns the kernel's error for too many threads.
    #[must_use]
    pub fn refusal() -> io::Error {
        io::ErrorKind::WouldBlock.into()
    }
}

impl Faults {
    /// Returns the number of starts since the faults began, including failed ones.
    #[must_use]
    pub fn starts(&self) -> u64 {
        self.script.starts.load(SeqCst)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        *SCRIPT.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

pub(super) fn spawn(
    spec: ThreadSpec,
    body: Box<dyn FnOnce() + Send>,
) -> Result<HostThread, SpawnError> {
    // Not under the lock: `decide` may block.
    let script = SCRIPT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(script) = script {
        let number = script.starts.fetch_add(1, SeqCst) + 1;
        if let Err(reason) = (script.decide)(&Start { number, spec: &spec }) {
            return Err(SpawnError::refused(spec.name, reason));
        }
    }
    thread::spawn(spec, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Platform, ThreadHandle};

    #[test]
    fn the_starts_that_a_test_names_fail_and_all_others_do_not() {
        let start = || {
            Faulty::spawn(ThreadSpec { name: "x".into(), ..Default::default() }, Box::new(|| ()))
        };
        let faults = Faulty::fail_starts(|number| number == 2);
        let started: Vec<bool> = (0..3).map(|_| start().map(ThreadHandle::join).is_ok()).collect();
        assert_eq!((started, faults.starts()), (vec![true, false, true], 3));
        drop(faults);
        start().unwrap().join();
    }
}

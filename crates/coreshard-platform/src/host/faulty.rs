//! This machine, on which starts of threads fail as a test says. With the feature `faulty`, for tests.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::thread::{self, HostThread};
use crate::{SpawnError, ThreadSpec};

/// [`Host`](crate::Host), where a test decides of each thread whether it is started; see [`Faulty::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faulty;

type Decide = dyn Fn(&Start<'_>) -> io::Result<()> + Send + Sync;

/// A test's closure, and how many starts it has decided.
struct Script {
    decide: Box<Decide>,
    starts: AtomicU64,
}

/// The closure that decides now; `None`: all threads start.
static SCRIPT: Mutex<Option<Arc<Script>>> = Mutex::new(None);
/// One test of a process at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A thread that is about to be started.
#[derive(Debug)]
pub struct Start<'spec> {
    /// How many starts there were since the faults began, with this one.
    pub number: u64,
    /// Its options.
    pub spec: &'spec ThreadSpec,
}

/// While it lives, its test decides which starts fail; other tests of the process wait for it.
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
    /// Has `decide` called before each start of a thread on this platform, on the thread that wants it: an
    /// error is what the start fails with. It may wait, as the kernel may before it refuses.
    pub fn decide(decide: impl Fn(&Start<'_>) -> io::Result<()> + Send + Sync + 'static) -> Faults {
        // A test that failed with faults going on is no reason for the next not to run.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let script = Arc::new(Script { decide: Box::new(decide), starts: AtomicU64::new(0) });
        *SCRIPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&script));
        Faults { script, _turn: turn }
    }

    /// Lets these starts fail, counted from 1 from here on, as if too many threads are there already.
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
    /// Starts that there were since the faults began, those that failed among them.
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
    // Not under the lock: `decide` may wait.
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

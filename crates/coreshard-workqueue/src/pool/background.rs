//! What the monitor must see to and must not wait for: a user's handlers and probe, and workers that end.
//!
//! The monitor calls nothing of a user's: what never returns there would stop it for good, and with it
//! every pool that it makes up for. It hands such calls to a thread of their own, which is started with the first
//! and ends with the monitor. Nobody waits for that thread. A call that takes long keeps those behind
//! it waiting, and nothing else; one that panics ends nothing.
//!
//! Where the thread cannot be started, the calls stay on their list, and the monitor tries again; as it ends,
//! it calls them itself, since by then nothing depends on it.

use std::collections::VecDeque;
use std::sync::Arc;

use coreshard_platform::{Lock, Parker, Platform, ThreadSpec, user};

/// Calls that wait at most, where they can be done without: one that never returns must not fill
/// the memory.
const MOST_OFFERED: usize = 64;

type Call = Box<dyn FnOnce() + Send>;

pub(super) struct Background<P: Platform> {
    list: Lock<P, List>,
    parker: Parker<P>,
}

struct List {
    calls: VecDeque<Call>,
    /// The thread is there.
    running: bool,
    /// It ends when nothing is left.
    ending: bool,
}

impl<P: Platform> Background<P> {
    pub(super) fn new() -> Self {
        let list = List { calls: VecDeque::new(), running: false, ending: false };
        Self { list: Lock::new(list), parker: Parker::new() }
    }

    /// Calls `call` soon. The caller keeps count of its calls: they are never refused.
    pub(super) fn call(self: &Arc<Self>, call: impl FnOnce() + Send + 'static) {
        self.add(Box::new(call), usize::MAX);
    }

    /// Calls `call` soon, or never where too many wait.
    pub(super) fn offer(self: &Arc<Self>, call: impl FnOnce() + Send + 'static) {
        self.add(Box::new(call), MOST_OFFERED);
    }

    fn add(self: &Arc<Self>, call: Call, most: usize) {
        // A model has no such thread, nor what it would be for.
        if cfg!(loom) {
            return;
        }
        let mut list = self.list.lock();
        if list.calls.len() >= most {
            drop(list);
            drop(user::discard(call));
            return;
        }
        list.calls.push_back(call);
        self.start(&mut list);
        drop(list);
        self.parker.unpark();
    }

    /// Starts the thread where it is needed and could not be had. True if it still cannot be: then the
    /// caller comes again.
    pub(super) fn is_missing(self: &Arc<Self>) -> bool {
        let mut list = self.list.lock();
        if list.calls.is_empty() {
            return false;
        }
        self.start(&mut list);
        !list.running
    }

    /// Whoever hands calls over is gone. What waits since no thread could be had is called here: nobody else
    /// would, and what it holds would never be freed.
    pub(super) fn end(&self) {
        loop {
            let call = {
                let mut list = self.list.lock();
                list.ending = true;
                if list.running { None } else { list.calls.pop_front() }
            };
            match call {
                Some(call) => drop(user::call(call)),
                None => break,
            }
        }
        self.parker.unpark();
    }

    fn start(self: &Arc<Self>, list: &mut List) {
        if list.running {
            return;
        }
        let background = Arc::clone(self);
        let spec = ThreadSpec { name: "cs-background".to_owned(), ..ThreadSpec::default() };
        list.running = P::spawn(spec, Box::new(move || background.run())).is_ok();
        list.ending &= !list.running;
    }

    fn run(&self) {
        loop {
            let call = {
                let mut list = self.list.lock();
                let call = list.calls.pop_front();
                if call.is_none() && list.ending {
                    list.running = false;
                    return;
                }
                call
            };
            match call {
                // What it throws was printed by the panic hook.
                Some(call) => drop(user::call(call)),
                None => self.parker.park(),
            }
        }
    }
}

//! On rayon with its scheduler exchanged for a Coreshard workqueue.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard::{Hooks, Workqueue};

#[path = "../../oxipng/src/program.rs"]
mod program;

thread_local! {
    /// The worker's number, on workers of the pool.
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

struct Coreshard(Workqueue);

impl Coreshard {
    fn start() -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let builder = coreshard::workqueue().expect("the machine can be read");
        // No call tells whether this is one of the queue's workers, or which: the hook does.
        let hooks = Hooks::new().on_start(|_| NUMBER.set(Some(STARTED.fetch_add(1, Relaxed))));
        Self(builder.name("rayon").hooks(hooks).build().expect("a queue"))
    }
}

impl rayon_core::Executor for Coreshard {
    fn threads(&self) -> usize {
        let runtime = coreshard::runtime().expect("the machine can be read");
        let quota = runtime.cpu_quota().map_or(usize::MAX, |cpus| cpus.ceil() as usize);
        runtime.usable().len().min(quota).max(1)
    }

    fn worker(&self) -> Option<usize> {
        NUMBER.get()
    }

    fn install(&self, work: &mut (dyn FnMut() + Send)) {
        self.0.install(work).expect("the queue is open");
    }

    fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        coreshard::join(a, b);
    }

    fn queue(&self, work: Box<dyn FnOnce() + Send>) {
        self.0.queue(work).expect("the queue is open");
    }

    /// There is no call that runs another item here, so the place is given away for a moment, in which
    /// another worker runs one.
    fn give_place(&self) {
        coreshard::blocking(|| std::thread::sleep(Duration::from_micros(50)));
    }
}

fn main() -> ExitCode {
    program::run(|| rayon_core::run_on(Coreshard::start()))
}

//! tokio's reactor, in which workers wait.

use coreshard::Reactor;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// A runtime of tokio's that has no thread: whoever waits in it drives its sockets and timers.
pub struct TokioReactor {
    runtime: Runtime,
    woken: Notify,
}

impl TokioReactor {
    /// The reactor, and what sockets are registered with.
    pub fn new() -> (Self, Handle) {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a reactor");
        let handle = runtime.handle().clone();
        (Self { runtime, woken: Notify::new() }, handle)
    }
}

impl Reactor for TokioReactor {
    fn wait(&self) {
        self.runtime.block_on(self.woken.notified());
    }

    fn poll(&self) {
        self.runtime.block_on(tokio::task::yield_now());
    }

    fn wake(&self) {
        self.woken.notify_one();
    }
}

//! Sockets for the services that run on a Coreshard workqueue: it has no reactor, so another one wakes its tasks.

mod async_io_stream;
mod polled;

pub use async_io_stream::AsyncIoStream;
pub use polled::{PolledReactor, PolledStream};

/// Starts a tokio reactor on a separate thread: sockets that are registered with it can be polled anywhere.
///
/// # Panics
/// If there can be no thread or no reactor.
pub fn tokio_reactor(name: &str) -> tokio::runtime::Handle {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a reactor");
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread");
    handle
}

//! A process forks while its queues have requests. Requests in the child are refused, and the child neither
//! hangs nor crashes. The parent is not affected.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use coreshard_block::{
    Backend, CounterLayout, Device, Engine, ErrorClass, File, FileOptions, HostAdapter,
    HostOptions, MAX_THREADS, Memory, Null, Queue, QueueOptions, Request,
};
use coreshard_platform::Host;
use testing::{Lack, forked, skip};

const BYTES: u64 = 1 << 20;

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}\n")) }
}

fn device(backend: Arc<dyn Backend<Host>>) -> Arc<Device<Host>> {
    let options = HostOptions { depth: 4, threads: 2, ..HostOptions::default() };
    HostAdapter::new(options).unwrap().target("t").device(backend).unwrap()
}

/// The checks in the child, which drops everything it inherited.
fn in_child(
    device: Arc<Device<Host>>,
    mut queue: Queue<Host>,
    future: impl Future<Output = coreshard_block::Completed>,
    called: &AtomicU64,
) -> Result<(), String> {
    let refused =
        queue.submit(Request::read(0, vec![7; 512]), 9).err().ok_or("it was accepted\n")?;
    let text = refused.error().to_string();
    expect(refused.error().class() == ErrorClass::Gone && text.contains("forked"), &text)?;
    let payload = refused.into_request().into_payload();
    expect(payload.into_one().is_some_and(|it| it.into_vec() == [7; 512]), "its buffer came back")?;
    let remote = queue.remote().send(Request::read(0, vec![0; 512]));
    let mut context = Context::from_waker(Waker::noop());
    expect(pin!(remote).poll(&mut context).is_ready(), "a message is refused at once")?;
    let sent = queue.send(Request::read(0, vec![0; 512]));
    expect(queue.block_on(sent).result.is_err(), "a future says so")?;
    let mut future = Box::pin(future);
    let polled = matches!(future.as_mut().poll(&mut context), Poll::Pending);
    expect(polled, "the parent's completions do not arrive here")?;
    expect(queue.poll() == 0 && queue.wait(None) == 0, "nothing comes")?;
    expect(queue.wait_for_one().is_none() && queue.outstanding() == 0, "nothing is outstanding")?;
    drop(future);
    drop(queue);
    drop(device);
    expect(called.load(SeqCst) == 0, "no callback is called here")
}

fn a_fork_with(backend: Arc<dyn Backend<Host>>, name: &str) {
    let device = device(backend);
    let mut queue = device.queue(0, QueueOptions::default()).unwrap();
    let called = Arc::new(AtomicU64::new(0));
    for at in 0..8 {
        let called = Arc::clone(&called);
        let count = move |_| _ = called.fetch_add(1, SeqCst);
        queue.call(Request::read(at * 512, vec![0; 512]), count).unwrap();
    }
    queue.submit(Request::write(8192, vec![1; 512]), 3).unwrap();
    let future = queue.send(Request::read(4096, vec![0; 512]));
    // Another thread takes the host's locks repeatedly.
    let over = AtomicBool::new(false);
    let parts = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(SeqCst) {
                let mut other = device.queue(1, QueueOptions::default()).unwrap();
                other.submit(Request::read(0, vec![0; 512]), 0).unwrap();
                drop(other);
            }
        });
        let mut parts = Some((queue, future));
        for _ in 0..4 {
            let (queue, future) = parts.take().unwrap();
            let slot = std::cell::Cell::new(Some((queue, future)));
            let outcome = forked(|| {
                let (queue, future) = slot.take().unwrap();
                in_child(Arc::clone(&device), queue, future, &called)
            });
            over.store(outcome.is_err(), SeqCst);
            outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
            parts = slot.take();
        }
        over.store(true, SeqCst);
        parts
    });
    let (mut queue, future) = parts.unwrap();
    assert_eq!(queue.block_on(future).result.unwrap(), 512, "{name}");
    let completed = queue.wait_for_one().expect("it was accepted");
    assert_eq!((completed.result.unwrap(), completed.cookie), (512, 3), "{name}");
    while queue.outstanding() > 0 {
        queue.wait(None);
    }
    assert_eq!(called.load(SeqCst), 8, "{name}");
}

#[test]
fn a_forked_process_is_refused_and_the_parent_goes_on() {
    testing::own_process!();
    a_fork_with(Arc::new(Memory::new(BYTES)), "memory");
    a_fork_with(Arc::new(Null::new(BYTES)), "null");
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(BYTES).unwrap();
    for engine in [Engine::Sync, Engine::IoUring] {
        let name = if matches!(engine, Engine::Sync) { "sync" } else { "io_uring" };
        match device(open(file.path(), engine.clone())).queue(0, QueueOptions::default()) {
            Ok(queue) => drop(queue),
            Err(error) => {
                skip(Lack::IoUring, error);
                continue;
            }
        }
        a_fork_with(open(file.path(), engine), name);
    }
}

fn open(path: &std::path::Path, engine: Engine) -> Arc<dyn Backend<Host>> {
    let options = FileOptions { write: true, engine, ..FileOptions::default() };
    Arc::new(File::open(path, options).unwrap())
}

/// Numbers of threads that would need too much memory are errors, and allocate nothing.
#[test]
fn threads_without_an_end_are_refused() {
    testing::own_process!();
    for threads in [MAX_THREADS + 1, (1 << 57) + 1, usize::MAX / 64, usize::MAX] {
        for counters in CounterLayout::ALL {
            let options = HostOptions { threads, counters, ..HostOptions::default() };
            let error = HostAdapter::<Host>::new(options).unwrap_err().to_string();
            assert!(error.contains(&threads.to_string()) && error.contains("65536"), "{error}");
            let made = coreshard_block::DeviceCounters::<Host>::new(counters, threads, None);
            assert!(threads <= 1 << 20 || made.is_err(), "{threads} counters");
        }
    }
}

/// Discarding nothing succeeds on every medium.
#[test]
fn a_discard_of_nothing_is_done() {
    testing::own_process!();
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(BYTES).unwrap();
    let open = |engine| open(file.path(), engine);
    let backends = [
        Arc::new(Memory::new(BYTES)) as Arc<dyn Backend<Host>>,
        open(Engine::Sync),
        open(Engine::IoUring),
    ];
    for backend in backends {
        let device = device(backend);
        let Ok(mut queue) = device.queue(0, QueueOptions::default()) else { continue };
        for request in [Request::discard(4096, 0), Request::write_zeroes(4096, 0)] {
            let future = queue.send(request);
            assert_eq!(queue.block_on(future).result.unwrap(), 0);
        }
    }
}

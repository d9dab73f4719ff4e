//! All faults at once: errors, delays, lost and torn requests, timeouts, cancels, dropped futures, panicking
//! callbacks. Still every buffer comes back once, the counters agree, and no request is reported as done that
//! was not.
//!
//! `CORESHARD_BLOCK_REQUESTS` sets the number of requests (10,000 by default); `docs/results/block.md` has
//! the long campaign.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coreshard_block::{
    Backend, BufferPool, Completed, CounterLayout, Device, DeviceMemory, Engine, ErrorClass,
    FaultPlan, Faulty, File, FileOptions, HostAdapter, HostOptions, IoFuture, Memory, Priority,
    Queue, QueueOptions, Request, RetryPolicy, TagPolicy,
};
use coreshard_platform::Host;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 256;
const IN_FLIGHT: u16 = 48;

fn requests() -> u64 {
    match std::env::var("CORESHARD_BLOCK_REQUESTS") {
        Ok(text) => text.parse().expect("CORESHARD_BLOCK_REQUESTS is a number"),
        Err(_) => 10_000,
    }
}

fn plan(seed: u64) -> FaultPlan {
    FaultPlan {
        seed,
        transient: 10_000,
        media: 5_000,
        short: 5_000,
        torn: 2_000,
        delayed: 20_000,
        longest_delay: Duration::from_micros(200),
        reordered: 50_000,
        lost: 500,
        gone_after: 0,
    }
}

/// The results of one thread.
#[derive(Debug, Default)]
struct Seen {
    submitted: u64,
    completed: u64,
    failed: HashMap<ErrorClass, u64>,
    dropped: u64,
}

/// The payload of callbacks' panics. Resumed without the panic hook, since there are many.
struct Thrown;

/// Waits, and ignores panics of callbacks.
fn wait(queue: &mut Queue<Host>, timeout: Option<Duration>) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| queue.wait(timeout)))
        && !thrown.is::<Thrown>()
    {
        resume_unwind(thrown);
    }
}

/// Issues one thread's requests. Some futures are kept and polled to completion; others are dropped at some
/// moment, or their requests cancelled. Every other callback panics.
fn hammer(device: &Arc<Device<Host>>, thread: usize, requests: u64) -> Seen {
    let pool = BufferPool::new(IN_FLIGHT, BLOCK_BYTES).unwrap();
    let options = QueueOptions {
        retry: RetryPolicy { transient: 2, media: 1, backoff: Duration::from_micros(5) },
        ..QueueOptions::default()
    };
    let mut queue = device.queue(thread, options).unwrap();
    // A sandbox may allow too little locked memory; buffers are then not registered.
    let _ = queue.register(&pool);
    let mut dice = fastrand::Rng::with_seed(thread as u64 + 1);
    let mut seen = Seen::default();
    let mut futures: Vec<IoFuture<Host>> = Vec::new();
    let mut ids = Vec::new();
    let mut cookies = 0;
    let called: Rc<RefCell<Vec<Completed>>> = Rc::default();
    let mut calls = 0;
    while seen.submitted < requests {
        while seen.submitted < requests
            && let Some(buffer) = pool.take()
        {
            let offset = dice.u64(..BLOCKS) * BLOCK_BYTES as u64;
            let request = if dice.bool() {
                Request::read(offset, buffer)
            } else {
                Request::write(offset, buffer)
            };
            // Lost requests end only by their timeout.
            let request = request.timeout(Duration::from_millis(dice.u64(5..50)));
            let class = [Priority::RealTime, Priority::BestEffort, Priority::Idle][dice.usize(..3)];
            let request = request.priority(class);
            seen.submitted += 1;
            if dice.bool() {
                futures.push(queue.send(request));
            } else if dice.bool() {
                let (called, panics) = (Rc::clone(&called), dice.bool());
                let then = move |completed| {
                    called.borrow_mut().push(completed);
                    if panics {
                        // A panic without the hook's message.
                        resume_unwind(Box::new(Thrown));
                    }
                };
                queue.call(request, then).unwrap();
                calls += 1;
            } else {
                ids.push(queue.submit(request, seen.submitted).unwrap());
                cookies += 1;
            }
        }
        if !ids.is_empty() && dice.u8(..8) == 0 {
            let id = ids.swap_remove(dice.usize(..ids.len()));
            queue.cancel(id);
        }
        if !futures.is_empty() && dice.u8(..8) == 0 {
            drop(futures.swap_remove(dice.usize(..futures.len())));
            seen.dropped += 1;
        }
        wait(&mut queue, Some(Duration::from_millis(1)));
        ids.truncate(64);
        collect(&mut queue, &mut futures, &mut seen, &mut cookies);
        called.borrow_mut().drain(..).for_each(|completed| {
            calls -= 1;
            count(&completed, &mut seen);
        });
    }
    while queue.outstanding() > 0 {
        wait(&mut queue, None);
        collect(&mut queue, &mut futures, &mut seen, &mut cookies);
    }
    called.borrow_mut().drain(..).for_each(|completed| {
        calls -= 1;
        count(&completed, &mut seen);
    });
    assert_eq!(calls, 0, "each callback was called once");
    assert_eq!((cookies, futures.len()), (0, 0), "each completion was reported once");
    assert_eq!(seen.completed + seen.dropped, seen.submitted);
    assert_eq!(pool.taken(), 0, "every buffer came back");
    seen
}

fn collect(
    queue: &mut Queue<Host>,
    futures: &mut Vec<IoFuture<Host>>,
    seen: &mut Seen,
    cookies: &mut u64,
) {
    while let Some(completed) = queue.next() {
        *cookies -= 1;
        count(&completed, seen);
    }
    let mut context = Context::from_waker(Waker::noop());
    futures.retain_mut(|future| match Pin::new(future).poll(&mut context) {
        Poll::Ready(completed) => {
            count(&completed, seen);
            false
        }
        Poll::Pending => true,
    });
}

fn count(completed: &Completed, seen: &mut Seen) {
    seen.completed += 1;
    assert_eq!(completed.payload.bytes(), BLOCK_BYTES, "each buffer comes back whole");
    match &completed.result {
        Ok(bytes) => assert_eq!(*bytes, BLOCK_BYTES),
        Err(error) => *seen.failed.entry(error.class()).or_default() += 1,
    }
}

fn campaign(
    backend: Arc<dyn Backend<Host>>,
    tags: TagPolicy,
    counters: CounterLayout,
    requests: u64,
) {
    let options = HostOptions {
        // Fewer tags than the queues want.
        depth: 64,
        tags,
        counters,
        memory: DeviceMemory::NodeLocal,
        threads: 2,
        ..HostOptions::default()
    };
    let host = HostAdapter::<Host>::new(options).unwrap();
    let device = host.target("campaign").device(Arc::new(Faulty::new(backend, plan(7)))).unwrap();
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let device = Arc::clone(&device);
            std::thread::spawn(move || hammer(&device, thread, requests / 2))
        })
        .collect();
    let seen: Vec<Seen> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let counts = device.counts();
    assert_eq!(counts.issued, counts.done, "after all requests: {counts:?}");
    assert!(counts.timeouts <= counts.errors && counts.errors <= counts.done, "{counts:?}");
    // Requests that ended while they waited for a tag were never issued.
    let submitted: u64 = seen.iter().map(|seen| seen.submitted).sum();
    assert!(counts.issued <= submitted);
    let failed: u64 = seen.iter().flat_map(|seen| seen.failed.values()).sum();
    let dropped: u64 = seen.iter().map(|seen| seen.dropped).sum();
    let unissued = submitted - counts.issued;
    assert!(counts.errors <= failed + dropped && failed <= counts.errors + unissued, "{counts:?}");
    assert_eq!(host.tags().in_use(), 0, "no tag is lost");
    assert!(device.is_online());
    for class in [ErrorClass::Media, ErrorClass::Cancelled] {
        let times: u64 = seen.iter().filter_map(|seen| seen.failed.get(&class)).sum();
        assert!(submitted < 5_000 || times > 0, "{class} errors were injected: {seen:?}");
    }
}

fn file(path: &Path, engine: Engine) -> Arc<dyn Backend<Host>> {
    std::fs::write(path, vec![0; BLOCKS as usize * BLOCK_BYTES]).unwrap();
    let options = FileOptions { write: true, engine, ..FileOptions::default() };
    Arc::new(File::open(path, options).unwrap())
}

#[test]
fn a_campaign_in_memory_under_every_policy() {
    for (tags, counters) in [
        (TagPolicy::Packed, CounterLayout::Packed),
        (TagPolicy::Padded, CounterLayout::Padded),
        (TagPolicy::Windowed { shared_pct: 50 }, CounterLayout::PerCpu),
        (TagPolicy::None, CounterLayout::PerCpu),
    ] {
        let memory = Memory::<Host>::new(BLOCKS * BLOCK_BYTES as u64);
        campaign(Arc::new(memory), tags, counters, requests() / 5);
    }
}

#[test]
fn a_campaign_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    // By io_uring, if it is available.
    let backend = file(&folder.path().join("file"), Engine::Auto);
    campaign(backend, TagPolicy::None, CounterLayout::PerCpu, requests() / 5);
}

/// The device disappears during random writes, each with its offset and number in its data. Every write that
/// was reported as done is on the medium, whole, or was overwritten by a later write.
#[test]
fn what_was_told_to_be_done_survives_a_device_that_vanishes() {
    for seed in 0..20 {
        let memory: Arc<Memory<Host>> = Arc::new(Memory::new(BLOCKS * BLOCK_BYTES as u64));
        let plan = FaultPlan { gone_after: 60 + seed * 7, ..plan(seed) };
        let faulty = Faulty::new(Arc::clone(&memory) as Arc<dyn Backend<Host>>, plan);
        let host = HostAdapter::<Host>::new(HostOptions::default()).unwrap();
        let device = host.target("vanishes").device(Arc::new(faulty)).unwrap();
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        let mut order: Vec<u64> = (0..BLOCKS).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        let mut done = Vec::new();
        let mut told = 0;
        let mut next = order.into_iter();
        loop {
            while queue.outstanding() < 16
                && device.is_online()
                && let Some(block) = next.next()
            {
                let data = pattern(block, seed);
                let request = Request::write(block * BLOCK_BYTES as u64, data);
                // Lost requests end by their timeout.
                let request = request.timeout(Duration::from_millis(20));
                let Ok(_) = queue.submit(request, block) else { break };
                told += 1;
            }
            let Some(completed) = queue.wait_for_one() else { break };
            told -= 1;
            assert_eq!(completed.payload.bytes(), BLOCK_BYTES);
            if completed.result.is_ok() {
                done.push(completed.cookie);
            }
        }
        assert_eq!(told, 0, "every accepted request completed");
        assert!(!device.is_online() && !done.is_empty() && done.len() < BLOCKS as usize);
        // The power is back: the content of the medium is checked without faults.
        let after = host.target("again").device(memory).unwrap();
        let mut queue = after.queue(0, QueueOptions::default()).unwrap();
        for block in done {
            let read = Request::read(block * BLOCK_BYTES as u64, vec![0; BLOCK_BYTES]);
            let read = queue.send(read);
            let found = queue.block_on(read).payload.into_one().unwrap().into_vec();
            assert!(
                found == pattern(block, seed),
                "block {block} was reported as done, seed {seed}"
            );
        }
    }
}

fn pattern(block: u64, seed: u64) -> Vec<u8> {
    let mut data = Vec::with_capacity(BLOCK_BYTES);
    while data.len() < BLOCK_BYTES {
        let place = block * BLOCK_BYTES as u64 + data.len() as u64;
        data.extend_from_slice(&(place ^ (seed << 48) ^ 0x5555_AAAA).to_le_bytes());
    }
    data
}

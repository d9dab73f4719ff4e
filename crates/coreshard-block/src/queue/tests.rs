//! Queues on every backend: data, errors, early ends.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::Host;
use testing::{Lack, skip};

use crate::*;

fn device_on(backend: Arc<dyn Backend<Host>>, depth: u32) -> Arc<Device<Host>> {
    let options = HostOptions { depth, threads: 4, ..HostOptions::default() };
    HostAdapter::new(options).unwrap().target("t").device(backend).unwrap()
}

fn memory(plan: FaultPlan) -> Arc<dyn Backend<Host>> {
    Arc::new(Faulty::new(Arc::new(Memory::<Host>::new(1 << 20)), plan))
}

fn queue_on(backend: Arc<dyn Backend<Host>>) -> Queue<Host> {
    device_on(backend, 16).queue(0, QueueOptions::default()).unwrap()
}

/// Creates a file of 1 MiB, which is removed with the folder.
fn file(folder: &tempfile::TempDir, engine: Engine, direct: bool) -> Arc<dyn Backend<Host>> {
    file_with(folder, FileOptions { engine, direct, ..FileOptions::default() })
}

fn file_with(folder: &tempfile::TempDir, options: FileOptions) -> Arc<dyn Backend<Host>> {
    let path = folder.path().join("file");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let executor: Arc<dyn Executor> = Arc::new(|job: Job| {
        std::thread::spawn(job);
        Ok(())
    });
    let executor = Some(executor);
    let options = FileOptions { write: true, executor, ..options };
    Arc::new(File::open(&path, options).unwrap())
}

/// Returns every backend that keeps data. io_uring is left out if a sandbox forbids it.
fn backends(folder: &tempfile::TempDir) -> Vec<Arc<dyn Backend<Host>>> {
    let ring = file(folder, Engine::IoUring, false);
    let mut backends = vec![
        memory(FaultPlan::default()),
        file(folder, Engine::Sync, false),
        file(folder, Engine::Threads, false),
    ];
    if let Err(error) = ring.channel(4) {
        skip(Lack::IoUring, error);
    } else {
        backends.push(ring);
        backends.push(file(folder, Engine::IoUring, true));
        let ring = RingOptions { wake: RingWake::Event, ..RingOptions::default() };
        let engine = Engine::IoUring;
        backends.push(file_with(folder, FileOptions { engine, ring, ..FileOptions::default() }));
    }
    backends
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + seed) as u8).collect()
}

#[test]
fn what_was_written_is_read_on_every_backend() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends(&folder) {
        let mut queue = queue_on(backend);
        let how = queue.describe();
        let mut out = Buffer::aligned(8192);
        out.copy_from_slice(&bytes(8192, 1));
        let written = queue.send(Request::write(4096, out));
        assert_eq!(queue.block_on(written).result.unwrap(), 8192, "{how}");
        let mut parts: Vec<Buffer> = (0..3).map(|_| Buffer::aligned(4096)).collect();
        parts[1].fill(9);
        let written = queue.send(Request::write_vectored(16384, parts));
        assert_eq!(queue.block_on(written).result.unwrap(), 12288, "{how}");
        for request in [Request::fsync(), Request::fsync_data()] {
            let synced = queue.send(request);
            queue.block_on(synced).result.unwrap();
        }
        let read = queue.send(Request::read(4096, Buffer::aligned(8192)));
        let read = queue.block_on(read);
        assert_eq!(read.payload.into_one().unwrap().into_vec(), bytes(8192, 1), "{how}");
        let parts = vec![Buffer::aligned(4096), Buffer::aligned(8192)];
        let read = queue.send(Request::read_vectored(20480 - 4096, parts));
        let Payload::Many(parts) = queue.block_on(read).payload else {
            panic!("two buffers were submitted")
        };
        assert!(parts[0].iter().all(|byte| *byte == 0), "{how}");
        assert!(parts[1][..4096].iter().all(|byte| *byte == 9), "{how}");
        let counts = queue.device().counts();
        assert_eq!((counts.issued, counts.done, counts.errors), (6, 6, 0), "{how}");
    }
}

#[test]
fn zeroes_are_written_where_the_file_allows() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends(&folder) {
        let mut queue = queue_on(backend);
        let mut ones = Buffer::aligned(8192);
        ones.fill(1);
        let written = queue.send(Request::write(0, ones));
        queue.block_on(written).result.unwrap();
        for request in [Request::write_zeroes(0, 4096), Request::discard(4096, 4096)] {
            let zeroed = queue.send(request);
            match queue.block_on(zeroed).result {
                Ok(_) => {}
                // Not every file system supports it.
                Err(error) => assert_eq!(error.errno(), libc::EOPNOTSUPP, "{error}"),
            }
        }
        let read = queue.send(Request::read(0, Buffer::aligned(4096)));
        let read = queue.block_on(read).payload.into_one().unwrap();
        assert!(read.iter().all(|byte| *byte == read[0]) && read[0] <= 1);
    }
}

#[test]
fn a_read_ends_with_the_file_and_the_buffers_come_back_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends(&folder) {
        let mut queue = queue_on(backend);
        for cookie in 0..200 {
            let request = Request::read((cookie % 200) * 4096, Buffer::aligned(4096));
            queue.submit(request, cookie).unwrap();
        }
        let mut seen = [0; 200];
        while let Some(completed) = queue.wait_for_one() {
            seen[completed.cookie as usize] += 1;
            assert_eq!(completed.result.unwrap(), 4096);
            assert_eq!(completed.payload.bytes(), 4096);
        }
        assert!(seen.iter().all(|times| *times == 1));
        assert_eq!(queue.outstanding(), 0);
    }
}

#[test]
fn callbacks_are_called_when_the_queue_is_polled() {
    let mut queue = queue_on(memory(FaultPlan::default()));
    let seen = Rc::new(RefCell::new(Vec::new()));
    for number in 0..40_u64 {
        let seen = Rc::clone(&seen);
        let then = move |completed: Completed| seen.borrow_mut().push((number, completed.offset));
        queue.call(Request::read(number * 512, vec![0; 512]), then).unwrap();
    }
    while queue.outstanding() > 0 {
        queue.wait(None);
    }
    assert_eq!(*seen.borrow(), (0..40).map(|number| (number, number * 512)).collect::<Vec<_>>());
}

/// Returns the result of a single request: the bytes, or the errno and the text.
fn outcome(queue: &mut Queue<Host>, request: Request) -> Result<usize, (i32, String)> {
    let told = |error: &IoError| (error.errno(), error.to_string());
    match queue.submit(request, 0) {
        Err(refused) => Err(told(refused.error())),
        Ok(_) => queue.wait_for_one().unwrap().result.map_err(|error| told(&error)),
    }
}

#[test]
fn what_can_never_succeed_is_refused_with_its_payload() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = queue_on(file(&folder, Engine::Sync, true));
    let block = queue.device().geometry().block_bytes as u64;
    for (request, says) in [
        (Request::read(1 << 20, Buffer::aligned(4096)), "expected an end at 1048576 or before"),
        (Request::read(u64::MAX - 1, Buffer::aligned(4096)), "goes past the end"),
        (Request::write((1 << 20) - 4096, Buffer::aligned(8192)), "an end at 1048576 or before"),
        (Request::read(block / 2, Buffer::aligned(4096)), "multiples of the block size"),
        (Request::read(0, Buffer::aligned(4095)), "multiples of the block size"),
    ] {
        let bytes = request.bytes;
        let refused = queue.submit(request, 0).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
        assert_eq!(refused.error().class(), ErrorClass::Invalid);
        assert_eq!(refused.into_request().into_payload().bytes(), bytes);
    }
    let path = folder.path().join("file");
    let read_only = File::open(&path, FileOptions::default()).unwrap();
    let refused = queue_on(Arc::new(read_only)).submit(Request::write(0, vec![1]), 0).unwrap_err();
    assert!(refused.to_string().ends_with("open it for writing"), "{refused}");
    assert_eq!(queue.device().counts().issued, 0);
}

#[test]
fn more_than_a_completion_can_tell_of_is_refused_and_what_moves_nothing_has_no_such_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    let bytes = 5 << 30;
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    let buffers = |count| (0..count).map(|_| vec![0; 1].into()).collect();
    for engine in [Engine::Auto, Engine::Sync] {
        let options = FileOptions { write: true, engine, ..FileOptions::default() };
        let mut queue = queue_on(Arc::new(File::open(&path, options).unwrap()));
        let most = outcome(&mut queue, Request::read_vectored(0, buffers(MAX_BUFFERS)));
        assert_eq!(most.unwrap(), MAX_BUFFERS);
        for op in [Request::read_vectored, Request::write_vectored] {
            let (_, error) = outcome(&mut queue, op(0, buffers(MAX_BUFFERS + 1))).unwrap_err();
            assert!(error.ends_with("1025 buffers: expected at most 1024"), "{error}");
        }
        // A hole uses neither memory nor disk space.
        let request = Request::discard(0, bytes as usize);
        if let Err((errno, error)) = outcome(&mut queue, request) {
            assert_eq!(errno, libc::EOPNOTSUPP, "{error}");
        }
    }
    let null = Arc::new(Null::new(1 << 40));
    let long = Request { bytes: MAX_BYTES + 1, ..Request::read(0, Vec::new()) };
    let (_, error) = outcome(&mut queue_on(null), long).unwrap_err();
    assert!(error.ends_with("expected at most 2147483647 bytes"), "{error}");
}

/// With direct I/O, the last bytes come with the whole block.
#[test]
fn what_is_left_of_a_file_behind_its_last_whole_block_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd");
    let written: Vec<u8> = (0..5_000_u32).map(|at| at as u8).collect();
    std::fs::write(&path, &written).unwrap();
    for engine in [Engine::Auto, Engine::IoUring, Engine::Sync] {
        for direct in [true, false] {
            let options = FileOptions {
                direct,
                write: true,
                engine: engine.clone(),
                ..FileOptions::default()
            };
            let Ok(file) = File::open(&path, options) else { continue };
            let host = HostAdapter::<Host>::new(HostOptions::default()).unwrap();
            let device = host.target("odd").device(Arc::new(file)).unwrap();
            let Ok(mut queue) = device.queue(0, QueueOptions::default()) else { continue };
            let block = u64::from(queue.device().geometry().block_bytes);
            let end = 5_000_u64.next_multiple_of(block);
            let mut read = |offset: u64, bytes: u64| {
                queue.submit(Request::read(offset, Buffer::aligned(bytes as usize)), 0)?;
                let completed = queue.wait_for_one().unwrap();
                let moved = completed.result.unwrap();
                let buffer = completed.payload.into_one().unwrap();
                let from = offset as usize;
                assert_eq!(buffer[..moved], written[from..from + moved], "{direct} {offset}");
                Ok::<_, Refused>(moved)
            };
            assert_eq!(read(0, end).unwrap(), 5_000);
            let last = 5_000 / block * block;
            if last < end {
                assert_eq!(read(last, end - last).unwrap() as u64, 5_000 - last);
            }
            let past = read(0, end + block).unwrap_err().to_string();
            assert!(past.contains(&format!("an end at {end} or before")), "{past}");
            if direct {
                let write = Request::write(last, Buffer::aligned(block as usize));
                let (_, error) = outcome(&mut queue, write).unwrap_err();
                assert!(error.contains("an end at 5000 or before"), "{error}");
            }
        }
    }
}

#[test]
fn a_thread_that_has_a_queue_is_told_so() {
    let options = HostOptions { threads: 2, ..HostOptions::default() };
    let host = HostAdapter::<Host>::new(options).unwrap();
    let device = host.target("t").device(Arc::new(Null::new(4096))).unwrap();
    let first = device.queue(1, QueueOptions::default()).unwrap();
    let second = device.queue(1, QueueOptions::default()).unwrap_err().to_string();
    assert!(second.contains("thread 1 already has a queue"), "{second}");
    drop(first);
    drop(device.queue(1, QueueOptions::default()).unwrap());
    let none = device.queue(2, QueueOptions::default()).unwrap_err().to_string();
    assert!(none.ends_with("the host's 2 threads"), "{none}");
}

#[test]
fn files_that_cannot_be_opened_are_told_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| File::open(&folder.path().join(name), FileOptions::default());
    let missing = open("missing").unwrap_err();
    assert!(missing.is_bad_input() && missing.to_string().contains("missing"), "{missing}");
    assert!(missing.to_string().contains("create it"), "{missing}");
    assert!(open("").unwrap_err().to_string().contains("is a folder"));
    let device = File::open("/dev/null".as_ref(), FileOptions::default()).unwrap_err();
    assert!(device.to_string().contains("has no size"), "{device}");
}

#[test]
fn transient_errors_are_retried_and_media_errors_told() {
    let plan = FaultPlan { seed: 1, transient: 300_000, ..FaultPlan::default() };
    let mut queue = queue_on(memory(plan));
    for cookie in 0..500 {
        queue.submit(Request::read(0, vec![0; 512]), cookie).unwrap();
    }
    let mut failed = 0;
    while let Some(completed) = queue.wait_for_one() {
        failed += completed
            .result
            .map(|_| 0)
            .map_err(|error| {
                assert_eq!(error.class(), ErrorClass::Transient);
                assert!(error.to_string().contains("6 attempts"), "{error}");
                1
            })
            .unwrap_or_else(|one| one);
    }
    // 0.3 to the power of 6 is 0.0007.
    assert!(failed < 10, "{failed} of 500 failed six times in a row");
    let counts = queue.device().counts();
    assert_eq!((counts.issued, counts.done, counts.errors), (500, 500, failed));

    let mut queue = queue_on(memory(FaultPlan { media: 1_000_000, ..FaultPlan::default() }));
    let read = queue.send(Request::read(512, vec![0; 512]));
    let error = queue.block_on(read).result.unwrap_err();
    assert_eq!((error.class(), error.errno()), (ErrorClass::Media, libc::EIO));
    assert!(error.to_string().contains("read of 512 bytes at 512"), "{error}");
}

#[test]
fn short_transfers_are_finished_and_torn_writes_never_done() {
    let short = FaultPlan { seed: 2, short: 500_000, ..FaultPlan::default() };
    let mut queue = queue_on(memory(short));
    for round in 0..50 {
        let out = bytes(8192, round);
        let written = queue.send(Request::write(0, out.clone()));
        assert_eq!(queue.block_on(written).result.unwrap(), 8192);
        let read = queue.send(Request::read(0, vec![0; 8192]));
        assert_eq!(queue.block_on(read).payload.into_one().unwrap().into_vec(), out);
    }
    let torn = FaultPlan { seed: 2, torn: 1_000_000, ..FaultPlan::default() };
    let mut queue = queue_on(memory(torn));
    let written = queue.send(Request::write(0, bytes(8192, 0)));
    let error = queue.block_on(written).result.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Media);
}

#[test]
fn a_lost_completion_times_out_and_its_buffer_comes_back() {
    let mut queue = queue_on(memory(FaultPlan { lost: 1_000_000, ..FaultPlan::default() }));
    // Long enough that even a slow machine loses the request first; a timeout before that does not prevent
    // its completion.
    let request = Request::read(0, vec![0; 512]).timeout(Duration::from_millis(200));
    let read = queue.send(request);
    let completed = queue.block_on(read);
    let error = completed.result.unwrap_err();
    assert_eq!((error.class(), error.errno()), (ErrorClass::Timeout, libc::ETIMEDOUT));
    assert_eq!(completed.payload.bytes(), 512);
    let counts = queue.device().counts();
    assert_eq!((counts.issued, counts.done, counts.errors, counts.timeouts), (1, 1, 1, 1));
}

#[test]
fn requests_are_cancelled_in_line_and_at_the_device() {
    let plan = FaultPlan { lost: 1_000_000, ..FaultPlan::default() };
    let device = device_on(memory(plan), 1);
    let mut queue = device.queue(0, QueueOptions::default()).unwrap();
    let at_device = queue.submit(Request::read(0, vec![0; 512]), 1).unwrap();
    let in_line = queue.submit(Request::read(0, vec![0; 512]), 2).unwrap();
    queue.poll();
    for (id, cookie) in [(in_line, 2), (at_device, 1)] {
        queue.cancel(id);
        let completed = queue.wait_for_one().unwrap();
        assert_eq!(completed.cookie, cookie);
        assert_eq!(completed.result.unwrap_err().class(), ErrorClass::Cancelled);
        assert_eq!(completed.payload.bytes(), 512);
    }
    assert_eq!(device.target().host().tags().in_use(), 0);
}

#[test]
fn a_device_that_goes_offline_hands_back_what_waits() {
    let device = device_on(memory(FaultPlan::default()), 1);
    let other = device_on(memory(FaultPlan::default()), 1);
    let mut holder = device.queue(0, QueueOptions::default()).unwrap();
    let mut queue = device.queue(1, QueueOptions::default()).unwrap();
    let _held = holder.submit(Request::read(0, vec![0; 512]), 0).unwrap();
    for cookie in 0..5 {
        queue.submit(Request::write(0, bytes(512, cookie)), cookie as u64).unwrap();
    }
    device.set_offline();
    let refused = queue.submit(Request::write(0, vec![1; 512]), 9).unwrap_err();
    assert!(refused.to_string().contains("offline"), "{refused}");
    queue.poll();
    for cookie in 0..5 {
        let completed = queue.next().unwrap();
        assert_eq!(completed.result.unwrap_err().class(), ErrorClass::Gone);
        assert_eq!(completed.payload.into_one().unwrap().into_vec(), bytes(512, cookie));
    }
    assert!(other.is_online());
    other.target().set_offline();
    assert!(!other.is_online());
}

#[test]
fn dropped_and_leaked_futures_free_or_keep_their_buffers() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends(&folder) {
        let pool = BufferPool::new(8, 4096).unwrap();
        let mut queue = queue_on(backend);
        for _ in 0..20 {
            for at in 0..8 {
                let future = queue.send(Request::read(0, pool.take().unwrap()));
                if at % 2 == 0 {
                    drop(future);
                } else {
                    queue.block_on(future).result.unwrap();
                }
            }
            while queue.outstanding() > 0 {
                queue.wait(None);
            }
            assert_eq!(pool.taken(), 0, "{}", queue.describe());
        }
        std::mem::forget(queue.send(Request::read(0, pool.take().unwrap())));
        let counts = queue.device().clone();
        drop(queue);
        assert_eq!(counts.counts().issued, counts.counts().done);
        assert!(pool.taken() <= 1, "a leaked future keeps only its completion");
    }
}

#[test]
fn a_queue_that_is_dropped_ends_everything() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = backends(&folder);
    all.push(memory(FaultPlan { lost: 1_000_000, ..FaultPlan::default() }));
    for backend in all {
        let pool = BufferPool::new(64, 4096).unwrap();
        let device = device_on(backend, 16);
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        let told = Rc::new(RefCell::new(0));
        for _ in 0..64 {
            let told = Rc::clone(&told);
            let then = move |_| *told.borrow_mut() += 1;
            queue.call(Request::read(0, pool.take().unwrap()), then).unwrap();
        }
        let remote = queue.remote();
        drop(queue);
        assert_eq!((*told.borrow(), pool.taken()), (64, 0), "{device:?}");
        assert_eq!(device.target().host().tags().in_use(), 0);
        assert_eq!(device.counts().issued, device.counts().done);
        let refused = futures_result(remote.send(Request::read(0, vec![0; 512])));
        assert_eq!(refused.result.unwrap_err().class(), ErrorClass::Cancelled);
        assert!(device.queue(0, QueueOptions::default()).is_ok(), "the thread may have another");
    }
}

/// A future that is ready already.
fn futures_result<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("the future is not ready"),
    }
}

#[test]
fn other_threads_send_requests_by_message() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends(&folder) {
        let mut queue = queue_on(backend);
        let remote = queue.remote();
        let sender = std::thread::spawn(move || {
            // The queue's thread sleeps meanwhile, or is about to.
            (0..100_u64)
                .map(|at| remote.send(Request::read(at * 512 / 4096 * 4096, Buffer::aligned(4096))))
                .collect::<Vec<_>>()
        });
        let futures = sender.join().unwrap();
        for future in futures {
            assert_eq!(queue.block_on(future).result.unwrap(), 4096);
        }
        // A future that sends requests itself.
        let remote = queue.remote();
        let copied = queue.block_on(async move {
            let read = remote.send(Request::read(0, Buffer::aligned(4096))).await;
            let buffer = read.payload.into_one().unwrap();
            remote.send(Request::write(8192, buffer)).await.result
        });
        assert_eq!(copied.unwrap(), 4096);
    }
}

#[test]
fn a_sleeping_queue_is_woken_by_a_message() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends(&folder) {
        // Only the message can wake it: the single completion is lost.
        let plan = FaultPlan { lost: 1_000_000, ..FaultPlan::default() };
        let mut queue = queue_on(Arc::new(Faulty::new(backend, plan)));
        let lost = queue.submit(Request::read(0, Buffer::aligned(4096)), 7).unwrap();
        let remote = queue.remote();
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            remote.send(Request::read(0, Buffer::aligned(4096)))
        });
        while queue.outstanding() < 2 {
            queue.wait(None);
        }
        drop(sender.join().unwrap());
        queue.cancel(lost);
        assert_eq!(queue.wait_for_one().unwrap().cookie, 7);
    }
}

/// The cost of deadlines and cancels does not grow with the line. Each request is visited a few times,
/// however many there are.
#[test]
fn deadlines_and_cancels_cost_the_same_however_long_the_line_is() {
    fn visits(queue: &Queue<Host>) -> (u64, u64) {
        let text = format!("{queue:?}");
        let number = |name: &str| -> u64 {
            let (_, rest) = text.split_once(name).unwrap();
            rest.split([',', ' ']).next().unwrap().parse().unwrap()
        };
        (number("pending_visits: "), number("timer_visits: "))
    }
    fn read(timeout: Duration) -> Request {
        Request::read(0, vec![0; 512]).timeout(timeout)
    }
    fn all_told(queue: &mut Queue<Host>, requests: u64) {
        for _ in 0..requests {
            queue.wait_for_one().unwrap();
        }
    }
    let lossy = FaultPlan { lost: 1_000_000, ..FaultPlan::default() };
    for requests in [1_000, 20_000] {
        let few = |queue: &Queue<Host>, what: &str| {
            let (line, timers) = visits(queue);
            assert!(line <= 5 * requests + 100, "{what}: {line} looks at {requests} in line");
            assert!(timers <= 5 * requests + 100, "{what}: {timers} looks at {requests} timers");
        };
        // All complete long before their deadlines.
        let device = device_on(memory(FaultPlan::default()), 4);
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        for cookie in 0..requests {
            queue.submit(read(Duration::from_secs(3_600)), cookie).unwrap();
        }
        all_told(&mut queue, requests);
        few(&queue, "done");
        // All are ended by their deadlines, in line or at the device.
        for depth in [1, 20_000] {
            let device = device_on(memory(lossy), depth);
            let options = QueueOptions { depth, ..QueueOptions::default() };
            let mut queue = device.queue(0, options).unwrap();
            for cookie in 0..requests {
                queue.submit(read(Duration::from_nanos(1 + cookie)), cookie).unwrap();
            }
            all_told(&mut queue, requests);
            few(&queue, "timed out");
        }
        // All are cancelled, the last one first, while new ones arrive.
        let mut queue = device_on(memory(lossy), 1).queue(0, QueueOptions::default()).unwrap();
        let mut ids: Vec<RequestId> = (0..requests / 2)
            .map(|cookie| queue.submit(read(Duration::from_secs(3_600)), cookie).unwrap())
            .collect();
        for cookie in 0..requests / 2 {
            queue.cancel(ids.pop().unwrap());
            let new = queue.submit(read(Duration::from_secs(3_600)), cookie).unwrap();
            ids.insert(ids.len() / 2, new);
        }
        ids.into_iter().for_each(|id| queue.cancel(id));
        all_told(&mut queue, requests);
        few(&queue, "cancelled");
        assert_eq!(queue.outstanding(), 0);
    }
}

#[test]
fn real_time_requests_go_first_and_shares_hold() {
    let device = device_on(memory(FaultPlan::default()), 1);
    let options = QueueOptions { best_effort_share: 3, idle_share: 1, ..QueueOptions::default() };
    let mut queue = device.queue(0, options).unwrap();
    let classes = [Priority::Idle, Priority::BestEffort, Priority::RealTime];
    // The first has the tag.
    queue.submit(Request::read(0, vec![0; 512]), 9).unwrap();
    for class in classes {
        for _ in 0..6 {
            let request = Request::read(0, vec![0; 512]).priority(class);
            queue.submit(request, class as u64).unwrap();
        }
    }
    let mut order = Vec::new();
    while let Some(completed) = queue.wait_for_one() {
        order.push(completed.cookie);
    }
    let [real_time, best_effort, idle] = [0, 1, 2];
    assert_eq!(
        order[..8],
        [9, real_time, real_time, real_time, real_time, real_time, real_time, best_effort]
    );
    assert_eq!(order[7..11], [best_effort, best_effort, best_effort, idle]);
    assert_eq!(order.len(), 19);
}

#[test]
fn a_registered_buffer_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends(&folder) {
        let mut queue = queue_on(backend);
        let pool = BufferPool::new(4, 4096).unwrap();
        // A sandbox may allow too little locked memory.
        let registered = queue.register(&pool).unwrap_or(false);
        assert_eq!(registered, queue.describe().contains("registered buffers"));
        let mut out = pool.take().unwrap();
        out.copy_from_slice(&bytes(4096, 3));
        let written = queue.send(Request::write(0, out));
        queue.block_on(written).result.unwrap();
        let read = queue.send(Request::read(0, pool.take().unwrap()));
        let read = queue.block_on(read).payload.into_one().unwrap();
        assert_eq!(*read, bytes(4096, 3));
    }
}

#[test]
fn a_thread_has_one_queue() {
    let device = device_on(memory(FaultPlan::default()), 4);
    let queue = device.queue(0, QueueOptions::default()).unwrap();
    let error = device.queue(0, QueueOptions::default()).unwrap_err().to_string();
    assert!(error.contains("thread 0") && error.contains("4 threads"), "{error}");
    assert!(device.queue(4, QueueOptions::default()).is_err());
    drop(queue);
}

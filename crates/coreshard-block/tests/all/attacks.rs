//! Misbehaving user code: callbacks, wakers and executors that panic at the worst moment, and ids and tags
//! that go to the wrong place. No buffer may come back while the device has it, and every waiter gets its
//! completion.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker as TaskWaker};
use std::time::Duration;

use coreshard_block::{
    Backend, BufferPool, Channel, Command, Completed, Completion, Data, Device, Engine, ErrorClass,
    Executor, FaultPlan, Faulty, File, FileOptions, Geometry, HostAdapter, HostOptions, Job,
    Memory, OpenError, QueueOptions, Request, TagSet, TagSetSpec, Waker,
};
use coreshard_platform::Host;
use testing::within;

/// Long enough for a loaded machine, and shorter than a queue waits for a device that never answers.
const LIMIT: Duration = Duration::from_secs(40);

/// A device whose completions the test decides on. It writes into its commands' memory until then, as
/// hardware does.
#[derive(Debug, Default)]
struct GateState {
    /// Commands at the device.
    has: AtomicUsize,
    /// How many it completes at its next reap.
    may_complete: AtomicUsize,
    /// How many waits return before it completes everything.
    slow_waits: AtomicUsize,
}

struct GatedChannel {
    gate: Arc<GateState>,
    commands: VecDeque<(u64, usize, usize)>,
}

// SAFETY: a command's memory is written before its completion is reported, and not after.
unsafe impl Channel for GatedChannel {
    unsafe fn start(&mut self, command: &Command) -> bool {
        let Data::One { start, bytes, .. } = command.data else { panic!("one piece is expected") };
        self.commands.push_back((command.id, start.expose_provenance(), bytes));
        self.gate.has.fetch_add(1, SeqCst);
        true
    }

    fn reap(&mut self, into: &mut Vec<Completion>) {
        for (_, start, bytes) in &self.commands {
            // SAFETY: by the contract of `start`, the memory is this channel's until the completion is
            // reported.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<u8>(*start).write_bytes(0xEE, *bytes);
            }
        }
        while !self.commands.is_empty() && self.gate.may_complete.load(SeqCst) > 0 {
            self.gate.may_complete.fetch_sub(1, SeqCst);
            let (id, _, bytes) = self.commands.pop_front().unwrap();
            self.gate.has.fetch_sub(1, SeqCst);
            into.push(Completion { id, result: bytes as i32 });
        }
    }

    fn wait(&mut self, _timeout: Option<Duration>) -> io::Result<()> {
        if self.gate.slow_waits.load(SeqCst) == 0 {
            self.gate.may_complete.store(self.commands.len(), SeqCst);
        } else {
            self.gate.slow_waits.fetch_sub(1, SeqCst);
        }
        Ok(())
    }

    fn cancel(&mut self, _id: u64) {}

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    fn describe(&self) -> String {
        "gate".to_owned()
    }
}

#[derive(Debug)]
struct GatedBackend(Arc<GateState>);

impl Backend<Host> for GatedBackend {
    fn name(&self) -> &str {
        "gate"
    }

    fn geometry(&self) -> Geometry {
        Geometry { bytes: 1 << 30, block_bytes: 1, memory_align: 1, writable: true }
    }

    fn channel(&self, _depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        Ok(Box::new(GatedChannel { gate: Arc::clone(&self.0), commands: VecDeque::new() }))
    }
}

fn device_on(backend: Arc<dyn Backend<Host>>, depth: u32) -> Arc<Device<Host>> {
    let options = HostOptions { depth, threads: 2, ..HostOptions::default() };
    HostAdapter::new(options).unwrap().target("t").device(backend).unwrap()
}

fn gate(depth: u32) -> (Arc<GateState>, Arc<Device<Host>>) {
    let gate = Arc::new(GateState::default());
    let device = device_on(Arc::new(GatedBackend(Arc::clone(&gate))), depth);
    (gate, device)
}

fn memory() -> Arc<dyn Backend<Host>> {
    Arc::new(Memory::new(1 << 20))
}

#[test]
fn a_callback_that_panics_while_its_queue_is_dropped_frees_no_buffer_that_the_device_has() {
    within(LIMIT, || {
        let (gate, device) = gate(8);
        let pool = BufferPool::new(8, 4096).unwrap();
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        let told = Rc::new(RefCell::new(0));
        for number in 0..8 {
            let (told, gate, pool_of) = (Rc::clone(&told), Arc::clone(&gate), pool.clone());
            let then = move |completed: Completed| {
                *told.borrow_mut() += 1;
                drop(completed);
                let (out, has) = (pool_of.taken() as usize, gate.has.load(SeqCst));
                assert!(out >= has, "{out} buffers are in use, but the device has {has}");
                if number % 2 == 0 {
                    panic!("a callback of number {number}");
                }
            };
            queue.call(Request::read(number * 4096, pool.take().unwrap()), then).unwrap();
        }
        // One command completes and its callback panics; the device keeps the others for some time.
        gate.may_complete.store(1, SeqCst);
        gate.slow_waits.store(2, SeqCst);
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(queue)));
        let (out, has) = (pool.taken() as usize, gate.has.load(SeqCst));
        assert!(out >= has, "{out} buffers are in use, but the device has {has}");
        assert_eq!((*told.borrow(), has, out), (8, 0, 0));
        let payload = dropped.expect_err("a panic is not lost");
        assert_eq!(payload.downcast_ref::<String>().unwrap(), "a callback of number 0");
        assert_eq!(device.target().host().tags().in_use(), 0);
    });
}

/// A thread that panics drops its queue, and callbacks panic as well: the process continues.
#[test]
fn callbacks_that_panic_while_their_thread_unwinds_do_not_abort() {
    let pool = BufferPool::new(4, 4096).unwrap();
    let of_thread = pool.clone();
    let thread = std::thread::spawn(move || {
        let mut queue = device_on(memory(), 1).queue(0, QueueOptions::default()).unwrap();
        for _ in 0..4 {
            let read = Request::read(0, of_thread.take().unwrap());
            queue.call(read, |_| panic!("a callback")).unwrap();
        }
        panic!("the thread");
    });
    let payload = thread.join().unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the thread"));
    assert_eq!(pool.taken(), 0);
}

#[test]
fn a_callback_that_panics_takes_no_other_completion_with_it() {
    within(LIMIT, || {
        let (gate, device) = gate(16);
        let pool = BufferPool::new(16, 512).unwrap();
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        let told = Rc::new(RefCell::new(Vec::new()));
        let mut futures = Vec::new();
        for number in 0..15_u64 {
            let request = Request::read(number * 512, pool.take().unwrap());
            match number % 3 {
                0 => {
                    let told = Rc::clone(&told);
                    let then = move |_| {
                        told.borrow_mut().push(number);
                        panic!("number {number}");
                    };
                    queue.call(request, then).unwrap();
                }
                1 => drop(queue.submit(request, number).unwrap()),
                _ => futures.push(queue.send(request)),
            }
        }
        gate.may_complete.store(15, SeqCst);
        let payload = catch_unwind(AssertUnwindSafe(|| queue.poll())).unwrap_err();
        assert_eq!(payload.downcast_ref::<String>().unwrap(), "number 0");
        assert_eq!(queue.outstanding(), 0, "nothing that was reaped is lost");
        assert_eq!(*told.borrow(), [0, 3, 6, 9, 12]);
        let cookies: Vec<u64> = std::iter::from_fn(|| queue.next()).map(|c| c.cookie).collect();
        assert_eq!(cookies, [1, 4, 7, 10, 13]);
        for future in futures {
            assert_eq!(queue.block_on(future).result.unwrap(), 512);
        }
        assert_eq!(pool.taken(), 0);
        // The queue is still usable.
        queue.submit(Request::read(0, pool.take().unwrap()), 99).unwrap();
        assert_eq!(queue.wait_for_one().unwrap().cookie, 99);
    });
}

/// A callback's panic also leaves `cancel`, after the request was cancelled.
#[test]
fn a_panic_leaves_cancel_when_all_is_settled() {
    let (_gate, device) = gate(1);
    let mut queue = device.queue(0, QueueOptions::default()).unwrap();
    queue.submit(Request::read(0, vec![0; 512]), 1).unwrap();
    let id = queue.call(Request::read(0, vec![0; 512]), |_| panic!("in line")).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.cancel(id))).is_err());
    assert_eq!(queue.outstanding(), 1);
    queue.cancel(id);
    assert_eq!(queue.wait_for_one().unwrap().cookie, 1);
}

/// The vtable of a waker whose every function panics.
static ANGRY: RawWakerVTable = RawWakerVTable::new(
    |_| RawWaker::new(std::ptr::null(), &ANGRY),
    |_| panic!("a waker that wakes"),
    |_| panic!("a waker that wakes by reference"),
    |_| panic!("a waker that is dropped"),
);

fn angry() -> TaskWaker {
    // SAFETY: the functions use no data.
    unsafe { TaskWaker::from_raw(RawWaker::new(std::ptr::null(), &ANGRY)) }
}

#[test]
fn a_waker_that_panics_takes_no_other_completion_with_it() {
    within(LIMIT, || {
        let (gate, device) = gate(16);
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        let mut futures: Vec<_> = (0..8)
            .map(|number| Box::pin(queue.send(Request::read(number * 512, vec![0; 512]))))
            .collect();
        let waker = std::mem::ManuallyDrop::new(angry());
        for future in &mut futures {
            let mut context = Context::from_waker(&waker);
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        gate.may_complete.store(8, SeqCst);
        drop(catch_unwind(AssertUnwindSafe(|| queue.poll())).unwrap_err());
        assert_eq!(queue.outstanding(), 0);
        for mut future in futures {
            let mut context = Context::from_waker(TaskWaker::noop());
            assert!(matches!(future.as_mut().poll(&mut context), Poll::Ready(_)));
        }
    });
}

/// A future's waker is user code: no lock of the future is held while it is cloned or dropped.
#[test]
fn wakers_are_cloned_and_dropped_outside_of_the_future_s_lock() {
    within(LIMIT, || {
        let (gate, device) = gate(16);
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        let mut future = Box::pin(queue.send(Request::read(0, vec![0; 512])));
        let waker = std::mem::ManuallyDrop::new(angry());
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        // The first waker's destructor panics as the second takes its place.
        let second = catch_unwind(AssertUnwindSafe(|| {
            let mut context = Context::from_waker(TaskWaker::noop());
            future.as_mut().poll(&mut context).is_pending()
        }));
        drop(second);
        gate.may_complete.store(1, SeqCst);
        queue.poll();
        assert_eq!(queue.block_on(future).result.unwrap(), 512);
        // A future that is dropped while its thread unwinds, with such a waker.
        let mut future = Box::pin(queue.send(Request::read(0, vec![0; 512])));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let unwound = catch_unwind(AssertUnwindSafe(move || {
            let _future = future;
            panic!("the first");
        }));
        assert_eq!(unwound.unwrap_err().downcast_ref::<&str>(), Some(&"the first"));
        gate.slow_waits.store(0, SeqCst);
        while queue.outstanding() > 0 {
            queue.wait(None);
        }
    });
}

/// Takes each job, and may panic.
struct Stuck {
    jobs: Mutex<Vec<Job>>,
    panics: bool,
}

impl Executor for Stuck {
    fn execute(&self, job: Job) -> Result<(), Job> {
        self.jobs.lock().unwrap().push(job);
        if self.panics {
            panic!("an executor that has the job");
        }
        Ok(())
    }
}

fn stuck(folder: &tempfile::TempDir, panics: bool) -> (Arc<Stuck>, Arc<Device<Host>>) {
    let path = folder.path().join("file");
    std::fs::write(&path, [7; 8192]).unwrap();
    let stuck = Arc::new(Stuck { jobs: Mutex::new(Vec::new()), panics });
    let options = FileOptions {
        write: true,
        engine: Engine::Threads,
        executor: Some(Arc::clone(&stuck) as Arc<dyn Executor>),
        ..FileOptions::default()
    };
    (stuck, device_on(Arc::new(File::open(&path, options).unwrap()), 16))
}

#[test]
fn a_buffer_that_came_back_by_its_deadline_is_no_job_s_any_more() {
    within(LIMIT, || {
        for panics in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (stuck, device) = stuck(&folder, panics);
            let mut queue = device.queue(0, QueueOptions::default()).unwrap();
            let pool = BufferPool::new(4, 4096).unwrap();
            for cookie in 0..4 {
                let request = Request::read(0, pool.take().unwrap());
                let request = request.timeout(Duration::from_millis(1));
                let submitted = catch_unwind(AssertUnwindSafe(|| queue.submit(request, cookie)));
                assert!(panics || submitted.is_ok());
            }
            let mut back = Vec::new();
            while let Some(completed) = queue.wait_for_one() {
                let error = completed.result.unwrap_err();
                assert_eq!(error.class(), ErrorClass::Timeout, "{error}");
                back.push(completed.payload.into_one().unwrap());
            }
            assert_eq!(back.len(), 4);
            back.iter_mut().for_each(|buffer| buffer.fill(0));
            // Only now the executor runs its jobs.
            let jobs = std::mem::take(&mut *stuck.jobs.lock().unwrap());
            assert_eq!(jobs.len(), 4);
            jobs.into_iter().for_each(|job| job());
            for buffer in &back {
                assert!(buffer.iter().all(|byte| *byte == 0), "a job used a buffer of its user's");
            }
            drop((back, queue));
            assert_eq!(device.target().host().tags().in_use(), 0);
        }
    });
}

#[test]
fn a_queue_is_dropped_beside_an_executor_that_never_runs_anything() {
    within(LIMIT, || {
        for panics in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let (stuck, device) = stuck(&folder, panics);
            let mut queue = device.queue(0, QueueOptions::default()).unwrap();
            let told = Rc::new(RefCell::new(0));
            for _ in 0..4 {
                let told = Rc::clone(&told);
                let then = move |_| *told.borrow_mut() += 1;
                let request = Request::read(0, vec![0; 4096]);
                drop(catch_unwind(AssertUnwindSafe(|| queue.call(request, then).map(drop))));
            }
            drop(queue);
            assert_eq!(*told.borrow(), 4);
            stuck.jobs.lock().unwrap().drain(..).for_each(|job| job());
        }
    });
}

#[test]
fn an_executor_that_drops_or_refuses_its_jobs_with_a_panic_loses_none() {
    within(LIMIT, || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [7; 8192]).unwrap();
        let turn = AtomicUsize::new(0);
        let executor: Arc<dyn Executor> =
            Arc::new(move |job: Job| match turn.fetch_add(1, SeqCst) % 4 {
                0 => panic!("with the job on its stack"),
                1 => Err(job),
                2 => {
                    drop(job);
                    Ok(())
                }
                _ => {
                    drop(std::thread::spawn(job));
                    Ok(())
                }
            });
        let engine = Engine::Threads;
        let options = FileOptions { engine, executor: Some(executor), ..FileOptions::default() };
        let device = device_on(Arc::new(File::open(&path, options).unwrap()), 16);
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        let pool = BufferPool::new(16, 4096).unwrap();
        for cookie in 0..16 {
            let request = Request::read(0, pool.take().unwrap());
            drop(catch_unwind(AssertUnwindSafe(|| queue.submit(request, cookie).map(drop))));
        }
        let mut ends = [0; 2];
        while let Some(completed) = queue.wait_for_one() {
            ends[usize::from(completed.result.is_ok())] += 1;
        }
        assert_eq!(ends, [8, 8]);
        assert_eq!(pool.taken(), 0);
    });
}

#[test]
fn an_id_of_another_queue_cancels_nothing_here() {
    let plan = FaultPlan { lost: 1_000_000, ..FaultPlan::default() };
    let lossy = || device_on(Arc::new(Faulty::new(memory(), plan)), 4);
    let (one, other) = (lossy(), lossy());
    let mut one = one.queue(0, QueueOptions::default()).unwrap();
    let mut other = other.queue(0, QueueOptions::default()).unwrap();
    let ids = [0, 1].map(|cookie| one.submit(Request::read(0, vec![0; 512]), cookie).unwrap());
    other.submit(Request::read(0, vec![0; 512]), 0).unwrap();
    other.cancel(ids[0]);
    other.poll();
    assert_eq!(other.outstanding(), 1, "the id belongs to another queue");
    // Nor does an id match the request that follows its own.
    for _ in 0..3 {
        one.cancel(ids[0]);
        one.poll();
    }
    one.submit(Request::read(0, vec![0; 512]), 2).unwrap();
    one.cancel(ids[0]);
    one.poll();
    assert_eq!(one.outstanding(), 2);
}

#[test]
fn a_tag_goes_back_to_its_own_set_alone() {
    let set = || {
        let spec = TagSetSpec { depth: 4, reserved: 1, ..TagSetSpec::default() };
        Arc::new(TagSet::<Host>::new(spec).unwrap())
    };
    let (one, other) = (set(), set());
    let mut port = one.add_user().unwrap().port();
    let user = other.add_user().unwrap();
    let (mut of_other, mut beside) = (user.port(), user.port());
    let (held, reserved) = (of_other.get().unwrap(), of_other.get_reserved().unwrap());
    let beside_held = beside.get().unwrap();
    let mut refused = |tag| {
        let put = catch_unwind(AssertUnwindSafe(|| of_other.put(tag))).unwrap_err();
        put.downcast_ref::<String>().unwrap().clone()
    };
    for tag in [port.get().unwrap(), port.get_reserved().unwrap(), beside_held] {
        let text = refused(tag);
        assert!(text.contains("tag set") && text.contains("port"), "{text}");
    }
    assert_eq!((other.in_use(), one.in_use()), (2, 1), "no tag in use was freed");
    of_other.put(reserved);
    of_other.put(held);
    assert_eq!(other.in_use(), 1);
}

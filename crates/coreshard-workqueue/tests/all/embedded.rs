//! Items of other languages. Embedded items, in the caller's memory: the guarantees of a `Work`, and the moment when that
//! memory may be freed. And calls with two words as arguments.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{CpuId, Scope, Topology};
use coreshard_workqueue::{
    EmbeddedFunction, EmbeddedWork, EmbeddedWorks, ForeignFunction, FunctionName, RefusedReason,
    Runtime, Sampling, Target, WorkErrorReason, Workqueue,
};

use testing::wait_until;

fn works() -> &'static EmbeddedWorks<Host> {
    static WORKS: OnceLock<&'static EmbeddedWorks<Host>> = OnceLock::new();
    WORKS.get_or_init(|| EmbeddedWorks::leak(16))
}

fn runtime() -> Runtime<Host> {
    let topology = Topology::from_synthetic("pack:1 l3:2 core:2 pu:1").unwrap();
    let here = coreshard_platform::affinity().unwrap();
    Runtime::builder(topology).laid_over(here).build().unwrap()
}

/// An item and the data of its function in one structure, as in a C program.
#[repr(C)]
struct Job {
    work: EmbeddedWork,
    runs: AtomicU32,
    inside: AtomicU32,
    go: AtomicBool,
    again: AtomicU32,
    queue: Option<Workqueue<Host>>,
    seen: AtomicU32,
}

impl Job {
    fn new(function: EmbeddedFunction) -> Box<Self> {
        Box::new(Self {
            work: EmbeddedWork::new(function, ptr::null()),
            runs: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            go: AtomicBool::new(true),
            again: AtomicU32::new(0),
            queue: None,
            seen: AtomicU32::new(0),
        })
    }

    fn place(&self) -> NonNull<EmbeddedWork> {
        NonNull::from(&self.work)
    }

    fn queue(&self, queue: &Workqueue<Host>) -> bool {
        self.queue_after(queue, Duration::ZERO)
    }

    fn queue_after(&self, queue: &Workqueue<Host>, delay: Duration) -> bool {
        // SAFETY: every test keeps its jobs until they have finished.
        unsafe { works().queue_to(self.place(), queue, Target::Here, delay) }.unwrap()
    }

    fn runs(&self) -> u32 {
        self.runs.load(SeqCst)
    }
}

unsafe fn of<'job>(work: NonNull<EmbeddedWork>) -> &'job Job {
    // SAFETY: the item is the first member of a job.
    unsafe { work.cast::<Job>().as_ref() }
}

unsafe extern "C-unwind" fn count(work: NonNull<EmbeddedWork>) {
    // SAFETY: each item of these tests belongs to a job.
    let job = unsafe { of(work) };
    assert_eq!(job.inside.fetch_add(1, SeqCst), 0, "it runs on one worker at a time");
    while !job.go.load(SeqCst) {
        std::thread::yield_now();
    }
    job.inside.fetch_sub(1, SeqCst);
    job.runs.fetch_add(1, SeqCst);
}

/// Queues itself this many times.
unsafe extern "C-unwind" fn again(work: NonNull<EmbeddedWork>) {
    // SAFETY: as above.
    let job = unsafe { of(work) };
    job.runs.fetch_add(1, SeqCst);
    if job.again.fetch_sub(1, SeqCst) > 1 {
        assert!(job.queue(job.queue.as_ref().unwrap()), "it is not pending while it runs");
    }
}

static FREED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn free(work: NonNull<EmbeddedWork>) {
    // SAFETY: it was leaked for this.
    drop(unsafe { Box::from_raw(work.cast::<Job>().as_ptr()) });
    FREED.fetch_add(1, SeqCst);
}

#[test]
fn an_item_runs_once_for_each_queueing_and_may_queue_itself() {
    let runtime = runtime();
    for queue in [
        runtime.workqueue().name("free").build().unwrap(),
        runtime.workqueue().name("ordered").ordered().build().unwrap(),
        runtime.workqueue().name("limited").max_active(2).build().unwrap(),
    ] {
        let mut job = Job::new(again);
        job.again.store(1_000, SeqCst);
        job.queue = Some(queue.clone());
        assert!(job.queue(&queue));
        queue.drain().unwrap();
        assert_eq!(job.runs(), 1_000);
        // SAFETY: the job is alive.
        assert!(!unsafe { works().is_pending(job.place()) } && !works().is_running(job.place()));
        // Otherwise the job would have the last handle to the queue.
        job.queue = None;
    }
}

unsafe extern "C-unwind" fn free_when_told(work: NonNull<EmbeddedWork>) {
    // SAFETY: as above.
    while !unsafe { of(work) }.go.load(SeqCst) {
        std::thread::yield_now();
    }
    // SAFETY: it was leaked for this.
    unsafe { free(work) };
}

/// An address that another thread may use.
#[derive(Clone, Copy)]
struct Sent(NonNull<EmbeddedWork>);
// SAFETY: the operations on an item may be called from any thread.
unsafe impl Send for Sent {}

impl Sent {
    fn get(self) -> NonNull<EmbeddedWork> {
        self.0
    }
}

/// Starts a thread that flushes the job's item, and returns when it sleeps. The item runs until it is told to end.
fn flush_elsewhere(job: &Job) -> std::thread::JoinHandle<bool> {
    // A thread would also sleep if the item was only queued.
    testing::wait_until("the item runs", || works().is_running(job.place()));
    let place = Sent(job.place());
    let (tell, told) = std::sync::mpsc::channel();
    let flush = std::thread::spawn(move || {
        // SAFETY: no arguments.
        tell.send(unsafe { libc::gettid() }).unwrap();
        // SAFETY: it is alive until it is told to end, when this thread sleeps.
        unsafe { works().flush(place.get()) }.unwrap()
    });
    wait_until_asleep(told.recv().unwrap());
    // It sleeps, so it has released the item's lock. Only taking the lock tells the thread sanitizer so.
    assert!(works().is_running(job.place()));
    flush
}

/// Waits until a thread of this process sleeps.
fn wait_until_asleep(thread: i32) {
    testing::wait_until("it is so", || {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('S')
    });
}

#[test]
fn an_item_may_free_itself_even_while_a_thread_waits_for_it() {
    let queue = runtime().workqueue().build().unwrap();
    for _ in 0..200 {
        let job = Box::leak(Job::new(free));
        assert!(job.queue(&queue));
    }
    queue.flush().unwrap();
    assert_eq!(FREED.load(SeqCst), 200);
    let job = Box::leak(Job::new(free_when_told));
    job.go.store(false, SeqCst);
    assert!(job.queue(&queue));
    let flush = flush_elsewhere(job);
    job.go.store(true, SeqCst);
    assert!(flush.join().unwrap());
    assert_eq!(FREED.load(SeqCst), 201);
}

#[test]
fn what_is_cancelled_may_be_freed_while_a_pool_has_it() {
    let queue = runtime().workqueue().build().unwrap();
    queue.freeze().unwrap();
    for _ in 0..100 {
        let job = Job::new(count);
        assert!(job.queue(&queue));
        // SAFETY: the job is alive.
        assert!(unsafe { works().cancel(job.place()) } && !unsafe { works().cancel(job.place()) });
        let Job { runs, .. } = *job;
        assert_eq!(runs.into_inner(), 0);
    }
    // The same memory, queued, cancelled and queued again.
    let job = Job::new(count);
    for _ in 0..10 {
        assert!(job.queue(&queue));
        // SAFETY: as above.
        assert!(unsafe { works().cancel(job.place()) });
    }
    assert!(job.queue(&queue));
    queue.thaw().unwrap();
    queue.flush().unwrap();
    assert_eq!(job.runs(), 1);
}

#[test]
fn a_pending_item_is_not_queued_again_and_one_that_runs_is() {
    let queue = runtime().workqueue().build().unwrap();
    let job = Job::new(count);
    job.go.store(false, SeqCst);
    assert!(job.queue(&queue));
    testing::wait_until("it is so", || works().is_running(job.place()));
    assert!(job.queue(&queue) && !job.queue(&queue));
    // SAFETY: the job is alive.
    assert!(unsafe { works().is_pending(job.place()) });
    let flush = flush_elsewhere(&job);
    job.go.store(true, SeqCst);
    assert!(flush.join().unwrap());
    // SAFETY: as above.
    assert!(!unsafe { works().flush(job.place()) }.unwrap());
    assert_eq!(job.runs(), 2);
}

#[test]
fn a_cancel_that_waits_returns_after_the_run() {
    let queue = runtime().workqueue().build().unwrap();
    let job = Job::new(count);
    for go in [true, false] {
        job.go.store(go, SeqCst);
        assert!(job.queue(&queue));
        testing::wait_until("it is so", || job.runs() == 1 || works().is_running(job.place()));
        let was_queued = job.queue(&queue);
        let place = Sent(job.place());
        // SAFETY: the job is alive.
        let cancel = std::thread::spawn(move || unsafe { works().cancel_and_wait(place.get()) });
        job.go.store(true, SeqCst);
        let was_pending = cancel.join().unwrap().unwrap();
        let runs = job.runs();
        assert!(!works().is_running(job.place()) && (was_queued || !was_pending));
        queue.flush().unwrap();
        assert_eq!(job.runs(), runs, "nothing of it is left");
        job.runs.store(0, SeqCst);
    }
}

#[test]
fn disables_nest_and_refuse() {
    let queue = runtime().workqueue().build().unwrap();
    let job = Job::new(count);
    job.work.set_name(FunctionName::leak("count_things"));
    queue.freeze().unwrap();
    assert!(job.queue(&queue));
    // SAFETY: the job is alive, here and below.
    unsafe {
        assert!(works().disable(job.place()).unwrap());
        assert!(!works().disable_and_wait(job.place()).unwrap());
        let zero = Duration::ZERO;
        let error = works().queue_to(job.place(), &queue, Target::Here, zero).unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::Disabled);
        assert!(error.to_string().contains("count_things"), "{error}");
        assert!(!works().enable(job.place()).unwrap() && works().enable(job.place()).unwrap());
        let error = works().enable(job.place()).unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::NotDisabled);
    }
    assert!(job.queue(&queue));
    queue.thaw().unwrap();
    queue.flush().unwrap();
    assert_eq!(job.runs(), 1);
}

#[test]
fn a_delay_can_be_changed_cancelled_and_brought_forward() {
    const LONG: Duration = Duration::from_secs(3_600);
    let queue = runtime().workqueue().build().unwrap();
    let job = Job::new(count);
    let place = job.place();
    // SAFETY: the job is alive, here and below.
    unsafe {
        assert!(job.queue_after(&queue, LONG) && !job.queue(&queue));
        assert!(works().cancel(place) && !works().is_pending(place));
        assert!(job.queue_after(&queue, LONG));
        assert!(works().flush(place).unwrap());
        assert_eq!(job.runs(), 1);
        assert!(!works().modify_to(place, &queue, Target::Here, LONG).unwrap());
        assert!(works().modify_to(place, &queue, Target::Here, Duration::from_millis(1)).unwrap());
        testing::wait_until("it is so", || job.runs() == 2);
        works().flush(place).unwrap();
        let error = works().queue_to(place, &queue, Target::Here, Duration::MAX).unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::BeyondClock);
        // A delayed item keeps its queue; the drain of that does not wait for it.
        assert!(job.queue_after(&queue, Duration::from_millis(5)));
        drop(queue);
        testing::wait_until("it is so", || job.runs() == 3);
        works().flush(place).unwrap();
    }
}

/// Waits that an item's own function must not make.
unsafe extern "C-unwind" fn waits_for_itself(work: NonNull<EmbeddedWork>) {
    // SAFETY: each item of these tests belongs to a job.
    let job = unsafe { of(work) };
    // SAFETY: the job is alive.
    let (flush, cancel) = unsafe { (works().flush(work), works().cancel_and_wait(work)) };
    for error in [flush.unwrap_err(), cancel.unwrap_err()] {
        assert_eq!(error.reason(), WorkErrorReason::WouldDeadlock);
        job.seen.fetch_add(1, SeqCst);
    }
}

static BEHIND: OnceLock<Box<Job>> = OnceLock::new();

unsafe extern "C-unwind" fn waits_behind(work: NonNull<EmbeddedWork>) {
    // SAFETY: as above.
    let job = unsafe { of(work) };
    let behind = BEHIND.get().unwrap();
    for delay in [Duration::ZERO, Duration::from_secs(3_600)] {
        assert!(behind.queue_after(job.queue.as_ref().unwrap(), delay));
        // SAFETY: a static.
        let error = unsafe { works().flush(behind.place()) }.unwrap_err();
        assert_eq!(error.reason(), WorkErrorReason::WouldDeadlock);
        // SAFETY: as above.
        assert!(unsafe { works().cancel(behind.place()) });
        job.seen.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_wait_that_could_never_end_is_an_error() {
    let queue = runtime().workqueue().ordered().build().unwrap();
    let _ = BEHIND.set(Job::new(count));
    for function in [waits_for_itself as EmbeddedFunction, waits_behind] {
        let mut job = Job::new(function);
        job.queue = Some(queue.clone());
        assert!(job.queue(&queue));
        queue.flush().unwrap();
        assert_eq!(job.seen.load(SeqCst), 2);
    }
}

#[test]
fn a_closed_queue_refuses_and_changes_nothing() {
    let queue = runtime().workqueue().build().unwrap();
    queue.shutdown(testing::NEVER).unwrap();
    let job = Job::new(count);
    // SAFETY: the job is alive.
    let error = unsafe { works().queue_to(job.place(), &queue, Target::Here, Duration::ZERO) };
    assert_eq!(error.unwrap_err().reason(), WorkErrorReason::Refused(RefusedReason::ShutDown));
    // SAFETY: as above.
    assert!(!unsafe { works().is_pending(job.place()) || works().flush(job.place()).unwrap() });
}

/// Few items, many threads, and all operations at once: each queueing runs once or is cancelled.
#[test]
fn operations_at_once_lose_and_duplicate_nothing() {
    const JOBS: usize = 4;
    const STEPS: u32 = 4_000;
    let runtime = runtime();
    let queues = [
        runtime.workqueue().scope(Scope::Cpu).build().unwrap(),
        runtime.workqueue().scope(Scope::Cache).ordered().build().unwrap(),
    ];
    let jobs: Vec<_> = (0..JOBS).map(|_| Job::new(count)).collect();
    let (queued, cancelled) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let (jobs, queues, queued, cancelled) = (&jobs, &queues, &queued, &cancelled);
            scope.spawn(move || {
                let mut random = thread + 1;
                for _ in 0..STEPS {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let job = &jobs[(random >> 8) as usize % JOBS];
                    let queue = &queues[(random >> 12) as usize % 2];
                    let delay = Duration::from_micros(u64::from(random >> 16 & 1) * 50);
                    // SAFETY: the jobs are alive.
                    unsafe {
                        match (random >> 20) % 8 {
                            // Rejected while another thread cancels it.
                            0..=3 => {
                                let came =
                                    works().queue_to(job.place(), queue, Target::Here, delay);
                                queued.fetch_add(came.is_ok_and(|came| came).into(), SeqCst)
                            }
                            4 => cancelled.fetch_add(works().cancel(job.place()).into(), SeqCst),
                            5 => {
                                let was_pending = works().cancel_and_wait(job.place());
                                cancelled.fetch_add(was_pending.is_ok_and(|was| was).into(), SeqCst)
                            }
                            6 => works().flush(job.place()).map(u32::from).unwrap(),
                            _ => {
                                let place = job.place();
                                let replaced = works().modify_to(place, queue, Target::Here, delay);
                                if let Ok(replaced) = replaced {
                                    queued.fetch_add(1, SeqCst);
                                    cancelled.fetch_add(replaced.into(), SeqCst);
                                }
                                0
                            }
                        };
                    }
                }
            });
        }
    });
    for job in &jobs {
        // SAFETY: the jobs are alive.
        unsafe { works().flush(job.place()) }.unwrap();
    }
    for queue in queues {
        queue.drain().unwrap();
    }
    let runs: u32 = jobs.iter().map(|job| job.runs()).sum();
    assert_eq!(runs, queued.into_inner() - cancelled.into_inner());
}

/// As `static struct work work = INITIALIZER(function)` in C: two words, and zeros.
#[repr(C)]
struct Initialized {
    function: EmbeddedFunction,
    rest: [u64; 7],
}

#[test]
fn what_a_static_initializer_has_made_is_set_up_once() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C-unwind" fn run(_: NonNull<EmbeddedWork>) {
        RUNS.fetch_add(1, SeqCst);
    }
    let runtime = runtime();
    let queue = runtime.workqueue().name("initialized").build().unwrap();
    let mut made = Initialized { function: run, rest: [0; 7] };
    let work = NonNull::from(&mut made).cast::<EmbeddedWork>();
    // SAFETY: the item lives until it is no longer in use.
    unsafe {
        let refused = works().queue(work, &queue).unwrap_err();
        assert_eq!(refused.reason(), WorkErrorReason::NotSetUp);
        assert_eq!(works().try_queue(work, &queue), None);
        works().set_up(work, FunctionName::leak("first"));
        works().set_up(work, FunctionName::leak("second"));
        assert!(format!("{:?}", work.as_ref()).contains("first"));
        queue.freeze().unwrap();
        assert_eq!(works().try_queue(work, &queue), Some(true));
        assert_eq!(works().try_queue(work, &queue), Some(false), "it is pending");
        queue.thaw().unwrap();
        works().flush(work).unwrap();
        works().disable(work).unwrap();
        assert_eq!(works().try_queue(work, &queue), None, "it is disabled");
    }
    assert_eq!(RUNS.load(SeqCst), 1);
}

#[test]
fn calls_of_two_words_are_run_in_any_case() {
    static SUM: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C-unwind" fn add(words: *mut [MaybeUninit<u64>; 2]) {
        // SAFETY: all callers have initialised both words.
        let [one, other] = unsafe { (*words).map(|word| word.assume_init()) };
        SUM.fetch_add(one * 1000 + other, SeqCst);
    }
    let add = ForeignFunction::leak(add, "add");
    let runtime = runtime();
    // A plain queue; one with a limit; one that measures each item, and so allocates it.
    let plain = runtime.workqueue().name("plain").build().unwrap();
    let limited = runtime.workqueue().name("limited").ordered().build().unwrap();
    let measured = runtime.workqueue().name("measured").times(Sampling::EVERY_ITEM);
    for queue in [plain, limited, measured.build().unwrap()] {
        SUM.store(0, SeqCst);
        // SAFETY: it may be called with any two words.
        let call = |one, other| unsafe {
            queue.queue_foreign(Target::Here, add, [one, other].map(MaybeUninit::new))
        };
        queue.freeze().unwrap();
        for at in 0..100 {
            call(at, 1).unwrap();
        }
        assert_eq!(SUM.load(SeqCst), 0);
        // Items that have not begun are returned if possible; calls cannot be.
        drop(queue.shutdown_now(Duration::from_secs(60)));
        assert_eq!(call(1, 1), Err(RefusedReason::ShutDown));
        assert_eq!(SUM.load(SeqCst), 4950 * 1000 + 100, "{}", queue.name());
    }
}

#[test]
fn a_target_that_goes_before_its_time_loses_nothing() {
    let runtime = runtime();
    let queue = runtime.workqueue().name("pods").scope(Scope::Cpu).build().unwrap();
    let job = Job::new(count);
    let to = |cpu, delay| {
        // SAFETY: the job is alive until it has finished.
        unsafe { works().queue_to(job.place(), &queue, Target::Cpu(CpuId(cpu)), delay) }
    };
    for delay in [Duration::ZERO, Duration::from_millis(1)] {
        let error = to(99, delay).unwrap_err().to_string();
        assert!(error.contains("CPU 99 is not a CPU of the workqueue"), "{error}");
    }
    assert!(to(3, Duration::from_millis(20)).unwrap());
    runtime.set_usable("0-1".parse().unwrap()).unwrap();
    wait_until("it runs elsewhere", || job.runs() == 1);
    assert!(to(3, Duration::from_millis(1)).is_err());
}

/// Fails in release builds if the number is rounded up without a check: it becomes 0, and every lock is out of bounds.
#[test]
fn more_stripes_than_can_be_are_refused() {
    for too_many in [EmbeddedWorks::<Host>::MAX_STRIPES + 1, usize::MAX / 2 + 2, usize::MAX] {
        let refused = std::panic::catch_unwind(|| EmbeddedWorks::<Host>::leak(too_many));
        let message = *refused.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains(&too_many.to_string()), "{message}");
    }
}

/// As with a `Work`: fails if each call leaves one more worker waiting for the run to end.
#[test]
fn an_item_that_is_queued_anew_while_it_runs_occupies_one_worker_at_most() {
    let runtime = runtime();
    for is_limited in [false, true] {
        let builder = runtime.workqueue();
        let builder = if is_limited { builder.max_active(2) } else { builder };
        let queue = builder.build().unwrap();
        let other = runtime.workqueue().build().unwrap();
        let workers = other.stats().total().workers;
        let job = Job::new(count);
        job.go.store(false, SeqCst);
        assert!(job.queue(&queue));
        wait_until("it runs", || job.inside.load(SeqCst) == 1);
        for call in 0..200 {
            // SAFETY: the item is alive until the queue is shut down.
            unsafe {
                if call % 2 == 1 {
                    works().cancel(job.place());
                }
                works().modify_to(job.place(), &queue, Target::Here, Duration::ZERO).unwrap();
            }
            // Workers look for items, and find the queued one.
            other.submit(|| ()).unwrap().join().unwrap();
        }
        let total = other.stats().total();
        assert!(total.workers <= workers.max(total.worker_limit) + 3, "{total:?}");
        job.go.store(true, SeqCst);
        queue.shutdown(Duration::from_secs(30)).unwrap();
        assert_eq!(job.runs.load(SeqCst), 2);
    }
}

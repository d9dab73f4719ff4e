//! One thread of a job: keeps its requests in flight, and takes the time.

use std::ops::Range;
use std::sync::Arc;

use coreshard_block::{Buffer, BufferPool, Completed, Device, Queue, QueueOptions, Request};
use coreshard_platform::{Lock, Platform, Time};

use super::job::{BlockJob, Pattern};
use super::overwrite;
use super::pattern;
use super::tally::{DirectionTally, WINDOW_NS};
use super::usage::Usage;
use crate::error::BenchError;
use crate::queue::gate::Gate;

/// What the threads of one run share.
pub(super) struct JobRun<P: Platform> {
    pub(super) job: BlockJob,
    pub(super) device: Arc<Device<P>>,
    /// Bytes of the device that are used.
    pub(super) size: u64,
    pub(super) gate: Gate<P>,
    pub(super) measures_usage: bool,
    pub(super) found: Lock<P, Vec<Result<Found, BenchError>>>,
}

/// What one thread found.
pub(super) struct Found {
    pub(super) read: DirectionTally,
    pub(super) write: DirectionTally,
    pub(super) started_at: Time,
    pub(super) ended_at: Time,
    /// Requests in flight times nanoseconds.
    pub(super) in_flight_ns: f64,
    pub(super) usage: Usage,
    pub(super) engine: String,
    pub(super) verified_bytes: u64,
}

/// What to do next, and where.
struct Course {
    pattern: Pattern,
    rwmixread: u8,
    bs: u64,
    /// The thread's own blocks where it writes what it will verify, else all.
    blocks: Range<u64>,
    next: u64,
    dice: fastrand::Rng,
    /// The order of blocks, each once, where what was written is verified.
    order: Option<Vec<u64>>,
    left: u64,
    /// Buffers of a file are read into and written in turn.
    is_mixed: bool,
}

impl Course {
    fn new(job: &BlockJob, size: u64, thread: usize) -> Self {
        let bs = u64::from(job.bs);
        let all = size / bs;
        let mut dice = fastrand::Rng::with_seed(job.randseed ^ (thread as u64 + 1) << 32);
        let (mut blocks, mut order) = (0..all, None);
        if job.verify && job.rw.writes() {
            let each = (all / u64::from(job.numjobs)).max(1);
            let start = (thread as u64 * each).min(all);
            blocks = start..(start + each).min(all);
            let mut list: Vec<u64> = blocks.clone().collect();
            if job.rw.is_random() {
                dice.shuffle(&mut list);
            }
            order = Some(list);
        }
        let whole = order.as_ref().map_or(all, |order| order.len() as u64);
        let left = match (job.number_ios, job.runtime) {
            (Some(ios), _) => ios,
            (None, Some(_)) => u64::MAX,
            (None, None) => whole,
        };
        let left = if order.is_some() { left.min(whole) } else { left };
        // Threads that go through the whole file begin at different places.
        let next = blocks.start + all * thread as u64 / u64::from(job.numjobs) % all.max(1);
        let next = if order.is_some() { 0 } else { next };
        let is_mixed =
            matches!(job.rw, Pattern::Mixed | Pattern::RandMixed) && job.ioengine.has_file();
        Self {
            pattern: job.rw,
            rwmixread: job.rwmixread,
            bs,
            blocks,
            next,
            dice,
            order,
            left,
            is_mixed,
        }
    }

    /// Whether to write, and where.
    #[inline]
    fn step(&mut self) -> (bool, u64) {
        self.left -= 1;
        if let Some(order) = &self.order {
            let block = order[self.next as usize];
            self.next += 1;
            return (true, block * self.bs);
        }
        let block = if self.pattern.is_random() {
            self.dice.u64(self.blocks.clone())
        } else {
            let block = self.next;
            self.next = if block + 1 == self.blocks.end { self.blocks.start } else { block + 1 };
            block
        };
        let write = match self.pattern {
            Pattern::Read | Pattern::RandRead => false,
            Pattern::Write | Pattern::RandWrite => true,
            Pattern::Mixed | Pattern::RandMixed => self.dice.u8(..100) >= self.rwmixread,
        };
        (write, block * self.bs)
    }

    /// Turns to reading back what was written.
    fn back_to_start(&mut self) {
        self.left = self.next;
        self.next = 0;
    }
}

/// A request in flight.
#[derive(Clone, Copy, Default)]
struct Stamp {
    began_at: Time,
    slat_ns: u64,
    writes: bool,
}

struct Worker<P: Platform> {
    run: Arc<JobRun<P>>,
    queue: Queue<P>,
    course: Course,
    /// By place; a place is free while its buffer is here.
    buffers: Vec<Option<Buffer>>,
    free: Vec<u32>,
    stamps: Vec<Stamp>,
    found: Found,
    /// Until when `found.in_flight_ns` was added up.
    added_up_to: Time,
    in_flight: u32,
    verifies: bool,
}

/// The body of a job's thread.
pub(super) fn work<P: Platform>(run: &Arc<JobRun<P>>, thread: usize) {
    let worker = Worker::new(run, thread);
    let found = match (worker, run.gate.pass()) {
        (Ok(mut worker), true) => worker.go().map(|()| worker.found),
        (Err(error), _) => Err(error),
        (Ok(_), false) => Err(BenchError::failed_job("given up before it began".to_owned())),
    };
    run.found.lock().push(found);
    run.gate.leave();
}

impl<P: Platform> Worker<P> {
    fn new(run: &Arc<JobRun<P>>, thread: usize) -> Result<Self, BenchError> {
        let job = &run.job;
        let options = QueueOptions { depth: job.iodepth, ..QueueOptions::default() };
        let mut queue = run.device.queue(thread, options)?;
        let places = job.iodepth as usize;
        let mut buffers: Vec<Option<Buffer>> = Vec::with_capacity(places);
        if job.fixedbufs {
            let pool = u16::try_from(places)
                .map_err(std::io::Error::other)
                .and_then(|places| BufferPool::new(places, job.bs as usize))
                .and_then(|pool| queue.register(&pool).map(|_| pool))
                .map_err(|error| {
                    let remedy = match error.kind() {
                        std::io::ErrorKind::OutOfMemory => {
                            "; this user may lock too little memory: raise that limit (ulimit -l), or \
                             give a smaller iodepth, numjobs or bs, or fixedbufs=0"
                        }
                        _ => "",
                    };
                    BenchError::bad_job(format!(
                        "fixedbufs: buffers cannot be registered: {error}{remedy}"
                    ))
                })?;
            buffers.extend((0..places).map(|_| pool.take()));
        } else {
            buffers.extend((0..places).map(|_| Some(Buffer::aligned(job.bs as usize))));
        }
        if job.rw.writes() {
            // What is written, where it is not verified, is known as the benchmark's own later.
            buffers.iter_mut().flatten().for_each(|buffer| overwrite::fill(buffer));
        }
        let engine = queue.describe();
        Ok(Self {
            run: Arc::clone(run),
            queue,
            course: Course::new(job, run.size, thread),
            buffers,
            free: (0..job.iodepth).rev().collect(),
            stamps: vec![Stamp::default(); places],
            found: Found {
                read: DirectionTally::new(),
                write: DirectionTally::new(),
                started_at: Time::default(),
                ended_at: Time::default(),
                in_flight_ns: 0.0,
                usage: Usage::default(),
                engine,
                verified_bytes: 0,
            },
            added_up_to: Time::default(),
            in_flight: 0,
            verifies: false,
        })
    }

    fn go(&mut self) -> Result<(), BenchError> {
        let measures = self.run.measures_usage;
        let before = if measures { Usage::of_thread() } else { Usage::default() };
        let start = P::now();
        self.found.started_at = start;
        let end = self.run.job.runtime.map(|runtime| start + runtime);
        self.pump(start, end)?;
        if measures {
            self.found.usage = Usage::of_thread().since(before);
        }
        if self.course.order.is_some() {
            self.course.back_to_start();
            self.verifies = true;
            self.pump(P::now(), None)?;
        }
        Ok(())
    }

    /// Keeps requests in flight until the course is over, or until `end`.
    fn pump(&mut self, start: Time, end: Option<Time>) -> Result<(), BenchError> {
        let mut now = start;
        self.added_up_to = start;
        loop {
            while self.course.left > 0
                && let Some(place) = self.free.pop()
            {
                now = self.issue(place, now)?;
            }
            if self.queue.wait(None) == 0 && self.in_flight == 0 {
                break;
            }
            now = P::now();
            self.add_up(now);
            let window = (now.ns_since(self.found.started_at) / WINDOW_NS) as usize;
            while let Some(completed) = self.queue.next() {
                self.take(completed, now, window)?;
            }
            if end.is_some_and(|end| now >= end) {
                self.course.left = 0;
            }
            if self.in_flight == 0 && self.course.left == 0 {
                break;
            }
        }
        if !self.verifies {
            self.found.ended_at = now;
        }
        Ok(())
    }

    #[inline]
    fn add_up(&mut self, now: Time) {
        let passed = now.ns_since(self.added_up_to);
        self.found.in_flight_ns += passed as f64 * f64::from(self.in_flight);
        self.added_up_to = now;
    }

    /// Submits a request; returns when it was.
    #[inline]
    fn issue(&mut self, place: u32, now: Time) -> Result<Time, BenchError> {
        let (writes, offset) = self.course.step();
        let mut buffer = self.buffers[place as usize].take().expect("a free place has its buffer");
        let writes = writes && !self.verifies;
        if writes && self.run.job.verify {
            pattern::fill(&mut buffer, offset, self.run.job.randseed);
        } else if writes && self.course.is_mixed && !self.stamps[place as usize].writes {
            // What was read into it belongs to another place, where it would not be known again.
            overwrite::fill(&mut buffer);
        }
        let request =
            if writes { Request::write(offset, buffer) } else { Request::read(offset, buffer) };
        if let Err(refused) = self.queue.submit(request, u64::from(place)) {
            return Err(BenchError::failed_job(refused.error().to_string()));
        }
        if !self.verifies {
            self.add_up(now);
        }
        self.in_flight += 1;
        let after = P::now();
        let slat_ns = after.ns_since(now);
        self.stamps[place as usize] = Stamp { began_at: now, slat_ns, writes };
        Ok(after)
    }

    #[inline]
    fn take(&mut self, completed: Completed, now: Time, window: usize) -> Result<(), BenchError> {
        let Completed { result, payload, offset, cookie, .. } = completed;
        let bytes = result?;
        let buffer = payload.into_one().expect("each request has one buffer");
        self.in_flight -= 1;
        if self.verifies {
            if let Some(wrong) = pattern::first_wrong(&buffer, offset, self.run.job.randseed) {
                return Err(BenchError::failed_job(format!(
                    "verify: {}: the byte at {wrong} is not what was written",
                    self.run.device.name()
                )));
            }
            self.found.verified_bytes += bytes as u64;
        } else {
            let Stamp { began_at, slat_ns, writes } = self.stamps[cookie as usize];
            let tally = if writes { &mut self.found.write } else { &mut self.found.read };
            tally.record(slat_ns, now.ns_since(began_at).max(slat_ns), bytes, window);
            tally.short += u64::from(bytes < buffer.len());
        }
        self.buffers[cookie as usize] = Some(buffer);
        self.free.push(cookie as u32);
        Ok(())
    }
}

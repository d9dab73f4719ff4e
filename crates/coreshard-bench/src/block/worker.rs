//! One thread of a job: keeps its requests in flight and measures them.

use std::sync::Arc;
use std::time::Duration;

use coreshard_block::{Buffer, BufferPool, Completed, Device, Queue, QueueOptions, Request};
use coreshard_platform::{Lock, Platform, Time};

use super::contents;
use super::course::{Course, Transfer};
use super::device::Extent;
use super::job::BlockJob;
use super::need;
use super::tally::{DirectionTally, WINDOW_NS};
use super::usage::Usage;
use crate::crew::Gate;
use crate::error::BenchError;

/// State that the threads of one run share.
pub(super) struct JobRun<P: Platform> {
    pub(super) job: BlockJob,
    pub(super) device: Arc<Device<P>>,
    /// The used part of the device.
    pub(super) extent: Extent,
    /// The random seed.
    pub(super) seed: u64,
    pub(super) measures_usage: bool,
    /// The process's usage when the first thread's `ramp_time` ended.
    pub(super) usage_after_ramp: Lock<P, Option<Usage>>,
    pub(super) found: Lock<P, Vec<Result<Found, BenchError>>>,
}

/// The results of one thread.
pub(super) struct Found {
    pub(super) read: DirectionTally,
    pub(super) write: DirectionTally,
    /// Moved forward by the time spent on verifying, and by the `ramp_time`.
    pub(super) started_at: Time,
    pub(super) ended_at: Time,
    /// The integral of requests in flight over time, in nanoseconds.
    pub(super) in_flight_ns: f64,
    pub(super) usage: Usage,
    pub(super) engine: String,
    pub(super) verified_bytes: u64,
}

/// When the next request may be made, by `rate_iops`.
struct Rates {
    /// Nanoseconds per read, and per write.
    each_ns: [u64; 2],
    due: [Time; 2],
}

impl Rates {
    fn new(per_second: [u32; 2]) -> Self {
        let each_ns = per_second.map(|rate| 1_000_000_000 / u64::from(rate));
        Self { each_ns, due: [Time::default(); 2] }
    }

    fn begin(&mut self, now: Time) {
        self.due = [now; 2];
    }

    /// Decides whether to write now, or returns when a request is possible. In a mixed job, if the chosen
    /// direction has to wait, the other one may go first, as in fio.
    fn allow(&mut self, writes: bool, is_mixed: bool, now: Time) -> Result<bool, Time> {
        let both = [writes, !writes];
        let allowed = if is_mixed { &both[..] } else { &both[..1] };
        match allowed.iter().find(|writes| self.due[usize::from(**writes)] <= now) {
            Some(writes) => {
                let at = usize::from(*writes);
                self.due[at] = self.due[at] + Duration::from_nanos(self.each_ns[at]);
                Ok(*writes)
            }
            None => Err(allowed
                .iter()
                .map(|writes| self.due[usize::from(*writes)])
                .min()
                .unwrap_or(now)),
        }
    }
}

/// The next step of a worker.
enum Next {
    Do(Transfer),
    /// Nothing until then.
    Later(Time),
    /// No more requests.
    End,
}

/// A request in flight.
#[derive(Clone, Copy, Default)]
struct Stamp {
    began_at: Time,
    slat_ns: u64,
    transfer: Transfer,
    /// Whether its time counts: it does not verify, and began after the `ramp_time`.
    counts: bool,
}

struct Worker<P: Platform> {
    run: Arc<JobRun<P>>,
    queue: Queue<P>,
    course: Course,
    rates: Option<Rates>,
    /// The buffers of each size, by place. A place is free while its buffers are here.
    buffers: Vec<Option<Buffer>>,
    /// By buffer: whether it holds data that was read, which belongs to another place.
    was_read: Vec<bool>,
    /// Whether such data must not be written elsewhere, so that the file is recognised later.
    marks: bool,
    sizes: usize,
    free: Vec<u32>,
    stamps: Vec<Stamp>,
    found: Found,
    /// The time up to which `found.in_flight_ns` was integrated.
    added_up_to: Time,
    in_flight: u32,
    /// The counted requests among these.
    counted_in_flight: u32,
    /// The end of the ramp, before which nothing counts.
    ramp: Option<Time>,
    /// The last moment to begin a request.
    end: Option<Time>,
    usage_before: Usage,
    /// Where the search for the next block to verify continues, while the pass is verified.
    verifies: Option<u64>,
}

/// The body of a job's thread.
pub(super) fn work<P: Platform>(run: &Arc<JobRun<P>>, thread: usize, gate: &Gate<P>) {
    let worker = Worker::new(run, thread);
    let found = match (worker, gate.pass()) {
        (Ok(mut worker), true) => worker.go().map(|()| worker.found),
        (Err(error), _) => Err(error),
        (Ok(_), false) => Err(BenchError::failed_job("given up before it began".to_owned())),
    };
    run.found.lock().push(found);
    gate.leave();
}

impl<P: Platform> Worker<P> {
    fn new(run: &Arc<JobRun<P>>, thread: usize) -> Result<Self, BenchError> {
        let job = &run.job;
        let options = QueueOptions { depth: job.iodepth, ..QueueOptions::default() };
        let mut queue = run.device.queue(thread, options)?;
        let places = job.iodepth as usize;
        let split = job.split();
        let mut buffers: Vec<Option<Buffer>> = Vec::with_capacity(places * split.len());
        if job.fixedbufs {
            let pool = u16::try_from(places)
                .map_err(std::io::Error::other)
                .and_then(|places| BufferPool::new(places, job.smallest_bs() as usize))
                .and_then(|pool| queue.register(&pool).map(|_| pool))
                .map_err(|error| {
                    let cause = need::locked(job).map(|cause| format!(": {cause}"));
                    BenchError::bad_job(format!(
                        "fixedbufs: buffers cannot be registered: {error}{}; use fixedbufs=0",
                        cause.unwrap_or_default()
                    ))
                })?;
            buffers.extend((0..places).map(|_| pool.take()));
        } else {
            for _ in 0..places {
                buffers
                    .extend(split.iter().map(|(bytes, _)| Some(Buffer::aligned(*bytes as usize))));
            }
        }
        if job.rw.writes() {
            // Data that is not verified carries the benchmark's mark, so that the file is recognised later.
            buffers.iter_mut().flatten().for_each(|buffer| contents::fill(buffer));
        }
        let engine = queue.describe();
        Ok(Self {
            run: Arc::clone(run),
            queue,
            course: Course::new(job, run.extent, run.seed, thread),
            rates: job.rate_iops.map(Rates::new),
            was_read: vec![false; buffers.len()],
            marks: job.rw.writes() && job.ioengine.has_file(),
            buffers,
            sizes: split.len(),
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
            counted_in_flight: 0,
            ramp: None,
            end: None,
            usage_before: Usage::default(),
            verifies: None,
        })
    }

    fn go(&mut self) -> Result<(), BenchError> {
        let BlockJob { loops, verify, ramp_time, runtime, .. } = self.run.job;
        self.usage_before = self.usage();
        let start = P::now();
        self.found.started_at = start;
        self.ramp = (!ramp_time.is_zero()).then(|| start + ramp_time);
        self.end = runtime.map(|runtime| start + ramp_time + runtime);
        if let Some(rates) = &mut self.rates {
            rates.begin(start);
        }
        let mut now = start;
        for _ in 0..loops {
            self.course.begin_pass();
            // Excludes the time since the last pass, which was spent on verifying.
            self.skip(now - self.found.ended_at.max(start));
            now = self.pump(now)?;
            self.found.usage = self.found.usage.and(self.usage().since(self.usage_before));
            self.found.ended_at = now;
            if verify {
                // Reads the pass's data back.
                self.verifies = Some(0);
                now = self.pump(now)?;
                self.verifies = None;
            }
            self.usage_before = self.usage();
            if self.end.is_some_and(|end| now >= end) {
                break;
            }
        }
        Ok(())
    }

    fn usage(&self) -> Usage {
        if self.run.measures_usage { Usage::of_thread() } else { Usage::default() }
    }

    fn skip(&mut self, spent: Duration) {
        self.found.started_at = self.found.started_at + spent;
        if let Some(rates) = &mut self.rates {
            rates.due = rates.due.map(|due| due + spent);
        }
    }

    /// Keeps requests in flight until the pass ends, or until `end`. Returns when that was.
    fn pump(&mut self, start: Time) -> Result<Time, BenchError> {
        let mut now = start;
        self.added_up_to = start;
        loop {
            let mut later = None;
            while let Some(place) = self.free.last().copied() {
                match self.next(now) {
                    Next::Do(transfer) => {
                        self.free.pop();
                        now = self.issue(place, transfer, now)?;
                    }
                    Next::Later(due) => {
                        later = Some(due);
                        break;
                    }
                    Next::End => break,
                }
            }
            match later {
                None if self.in_flight == 0 => return Ok(now),
                // Nothing is outstanding, so there is no completion to wait for.
                Some(due) if self.in_flight == 0 => {
                    P::sleep(self.end.map_or(due, |end| due.min(end)) - now);
                }
                _ => {
                    self.queue.wait(later.map(|due| due - now));
                }
            }
            now = P::now();
            self.add_up(now);
            let window = (now.ns_since(self.found.started_at) / WINDOW_NS) as usize;
            while let Some(completed) = self.queue.next() {
                self.take(completed, now, window)?;
            }
            if self.verifies.is_none() {
                if self.ramp.is_some_and(|ramp| now >= ramp) {
                    self.end_ramp(now);
                }
                if self.end.is_some_and(|end| now >= end) {
                    self.course.stop();
                }
            }
        }
    }

    #[inline]
    fn next(&mut self, now: Time) -> Next {
        if let Some(from) = self.verifies {
            return self.course.to_verify(from).map_or(Next::End, |(from, transfer)| {
                self.verifies = Some(from);
                Next::Do(transfer)
            });
        }
        if self.course.is_over() {
            return Next::End;
        }
        let writes = self.course.direction();
        let writes = match &mut self.rates {
            None => writes,
            Some(rates) => match rates.allow(writes, self.course.is_mixed(), now) {
                Ok(writes) => writes,
                Err(due) => return Next::Later(due),
            },
        };
        Next::Do(self.course.transfer(writes))
    }

    /// Discards the measurements so far. Requests in flight do not count.
    fn end_ramp(&mut self, now: Time) {
        self.ramp = None;
        (self.found.read, self.found.write) = (DirectionTally::new(), DirectionTally::new());
        self.found.in_flight_ns = 0.0;
        self.found.started_at = now;
        self.stamps.iter_mut().for_each(|stamp| stamp.counts = false);
        self.counted_in_flight = 0;
        self.found.usage = Usage::default();
        self.usage_before = self.usage();
        self.run.usage_after_ramp.lock().get_or_insert_with(Usage::of_process);
    }

    #[inline]
    fn add_up(&mut self, now: Time) {
        let passed = now.ns_since(self.added_up_to);
        self.found.in_flight_ns += passed as f64 * f64::from(self.counted_in_flight);
        self.added_up_to = now;
    }

    /// Submits a request, and returns the time after submission.
    #[inline]
    fn issue(&mut self, place: u32, transfer: Transfer, now: Time) -> Result<Time, BenchError> {
        let Transfer { writes, offset, size } = transfer;
        let at = place as usize * self.sizes + size;
        let mut buffer = self.buffers[at].take().expect("a free place has its buffers");
        if writes && self.run.job.verify {
            contents::fill_to_verify(&mut buffer, offset, self.run.seed);
        } else if writes && self.marks && self.was_read[at] {
            contents::fill(&mut buffer);
        }
        self.was_read[at] = !writes;
        let request =
            if writes { Request::write(offset, buffer) } else { Request::read(offset, buffer) };
        if let Err(refused) = self.queue.submit(request, u64::from(place)) {
            return Err(BenchError::failed_job(refused.error().to_string()));
        }
        self.add_up(now);
        self.in_flight += 1;
        let counts = self.verifies.is_none();
        self.counted_in_flight += u32::from(counts);
        let after = P::now();
        let slat_ns = after.ns_since(now);
        self.stamps[place as usize] = Stamp { began_at: now, slat_ns, transfer, counts };
        Ok(after)
    }

    #[inline]
    fn take(&mut self, completed: Completed, now: Time, window: usize) -> Result<(), BenchError> {
        let Completed { result, payload, offset, cookie, .. } = completed;
        let bytes = result?;
        let buffer = payload.into_one().expect("each request has one buffer");
        self.in_flight -= 1;
        let Stamp { began_at, slat_ns, transfer, counts } = self.stamps[cookie as usize];
        if self.verifies.is_some() {
            if let Some(wrong) = contents::first_wrong(&buffer, offset, self.run.seed) {
                return Err(BenchError::failed_job(format!(
                    "verify: {}: the byte at {wrong} is not what was written",
                    self.run.device.name()
                )));
            }
            self.found.verified_bytes += bytes as u64;
        } else if counts {
            self.counted_in_flight -= 1;
            let tally = if transfer.writes { &mut self.found.write } else { &mut self.found.read };
            tally.record(slat_ns, now.ns_since(began_at).max(slat_ns), bytes, window);
            tally.record_short(u64::from(bytes < buffer.len()));
        }
        self.buffers[cookie as usize * self.sizes + transfer.size] = Some(buffer);
        self.free.push(cookie as u32);
        Ok(())
    }
}

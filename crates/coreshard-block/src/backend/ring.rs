//! Commands done by the kernel through io_uring.
//!
//! 1. A ring is made on the thread that uses it, and used by no other; others reach its thread by
//!    the eventfd that the ring reads, or by a message from a ring of theirs.
//! 2. What the kernel offers is probed by doing it, from the best down ([`rungs`]); what was
//!    refused, and why, is in [`Lane::describe`].
//! 3. The kernel owns a command's memory until its completion; the drop waits for all of them.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use super::sync::fallocate_mode;
use super::{Command, Data, Lane, Reaped, Waker};
use crate::buffer::{Buffer, BufferPool, PAGE_BYTES};
use crate::request::Op;

/// Completions that are no command's.
const WOKEN: u64 = u64::MAX;
const CANCELLED: u64 = u64::MAX - 1;
const PROBED: u64 = u64::MAX - 2;

/// How long a completion is waited for in company, in microseconds: less than a wake-up costs an
/// SSD's queue, more than a memory-backed file needs for several.
const COMPANY_US: u32 = 20;

/// What a ring is to be, beside what is always tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingOptions {
    /// A kernel thread takes submissions, so that submitting is no system call; it spins for this
    /// long, in milliseconds, before it sleeps.
    pub sqpoll_idle_ms: Option<u32>,
    /// Completions are polled for, not interrupted for. Direct I/O on devices with poll queues only.
    pub iopoll: bool,
    /// Most kernel threads for requests that would block the submitter; the kernel's own bound
    /// (4 a CPU at most) where `None`.
    pub blocking_workers: Option<u32>,
}

/// What a ring is made of.
#[derive(Clone, Copy, Debug, Default)]
struct Rung {
    single_issuer: bool,
    defer: bool,
    coop: bool,
    sqpoll: Option<u32>,
    iopoll: bool,
}

impl Rung {
    fn name(self) -> String {
        let parts = [
            (self.iopoll, "IOPOLL"),
            (self.sqpoll.is_some(), "SQPOLL"),
            (self.single_issuer, "SINGLE_ISSUER"),
            (self.defer, "DEFER_TASKRUN"),
            (self.coop, "COOP_TASKRUN"),
        ];
        let names: Vec<&str> = parts.into_iter().filter(|part| part.0).map(|part| part.1).collect();
        if names.is_empty() { "plain".to_owned() } else { names.join("|") }
    }
}

/// The ladder of rings, the best first.
fn rungs(options: RingOptions) -> Vec<Rung> {
    let bare = Rung::default();
    let mut rungs = Vec::new();
    let polls: &[bool] = if options.iopoll { &[true, false] } else { &[false] };
    for iopoll in polls.iter().copied() {
        if let Some(idle) = options.sqpoll_idle_ms {
            let sqpoll = Rung { sqpoll: Some(idle), iopoll, ..bare };
            rungs.extend([Rung { single_issuer: true, ..sqpoll }, sqpoll]);
        }
        rungs.extend([
            Rung { single_issuer: true, defer: true, iopoll, ..bare },
            Rung { single_issuer: true, coop: true, iopoll, ..bare },
            Rung { coop: true, iopoll, ..bare },
            Rung { iopoll, ..bare },
        ]);
    }
    rungs
}

fn build(rung: Rung, depth: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork().setup_clamp().setup_cqsize((depth * 2 + 16).next_power_of_two());
    if rung.single_issuer {
        builder.setup_single_issuer();
    }
    if rung.defer {
        builder.setup_defer_taskrun().setup_taskrun_flag();
    }
    if rung.coop {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    if let Some(idle) = rung.sqpoll {
        builder.setup_sqpoll(idle);
    }
    if rung.iopoll {
        builder.setup_iopoll();
    }
    builder.build((depth + 8).next_power_of_two())
}

/// Has the ring do something: a ring with IOPOLL can be made where each read of it then fails.
fn probe(ring: &mut IoUring, rung: Rung, file: &OwnedFd) -> io::Result<()> {
    let scratch = Buffer::aligned(PAGE_BYTES);
    let entry = if rung.iopoll {
        let file = types::Fd(file.as_raw_fd());
        opcode::Read::new(file, scratch.start(), PAGE_BYTES as u32).build()
    } else {
        opcode::Nop::new().build()
    };
    // SAFETY: the scratch buffer lives until the completion, which is waited for below.
    unsafe { ring.submission().push(&entry.user_data(PROBED)) }
        .map_err(|_| io::Error::other("a new ring is full"))?;
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => {
                // Nobody knows whether the read is on its way: its memory is given up.
                std::mem::forget(scratch);
                return Err(error);
            }
        }
        if let Some(completion) = ring.completion().next() {
            return match completion.result() {
                0.. => Ok(()),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            };
        }
    }
}

/// Whether the file's system cannot read without a thread that may block.
fn never_at_once(file: &OwnedFd) -> bool {
    let scratch = Buffer::aligned(PAGE_BYTES);
    let piece = libc::iovec { iov_base: scratch.start().cast(), iov_len: PAGE_BYTES };
    // SAFETY: one live piece of memory, and an open descriptor.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const piece, 1, 0, libc::RWF_NOWAIT) };
    read < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP)
}

/// What wakes a ring's thread.
#[derive(Debug)]
struct Doorbell {
    event: OwnedFd,
    /// The thread is about to sleep, or does.
    asleep: AtomicBool,
    rung: AtomicBool,
}

impl Doorbell {
    fn new() -> io::Result<Self> {
        // SAFETY: takes two integers, answers a descriptor or −1.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just opened and is nobody else's.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Self { event, asleep: AtomicBool::new(false), rung: AtomicBool::new(false) })
    }

    fn ring(&self) {
        // SeqCst here and in `wait`: the ringer sees the sleeper, or the sleeper the ringer.
        self.rung.store(true, SeqCst);
        if self.asleep.load(SeqCst) {
            let one = 1_u64;
            // SAFETY: writes eight bytes from a live integer. It fails only where the count would
            // overflow, and then the thread is being woken anyway.
            unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }
}

/// A command as an entry of the submission queue. A macro, since the trait of what may be a file
/// there has no public name.
macro_rules! entry_on {
    ($file:expr, $command:expr) => {{
        let (file, command): (_, &Command) = ($file, $command);
        let (offset, ioprio) = (command.offset, command.ioprio);
        macro_rules! moved {
            ($one:ident, $fixed:ident, $many:ident) => {
                match command.data {
                    Data::One { start, bytes, registered: None } => {
                        let entry = opcode::$one::new(file, start, bytes as u32);
                        entry.offset(offset).ioprio(ioprio).build()
                    }
                    Data::One { start, bytes, registered: Some(index) } => {
                        let entry = opcode::$fixed::new(file, start, bytes as u32, index);
                        entry.offset(offset).ioprio(ioprio).build()
                    }
                    Data::Many { pieces, count } => {
                        let entry = opcode::$many::new(file, pieces, count);
                        entry.offset(offset).ioprio(ioprio).build()
                    }
                    Data::None => opcode::Nop::new().build(),
                }
            };
        }
        match command.op {
            Op::Read => moved!(Read, ReadFixed, Readv),
            Op::Write => moved!(Write, WriteFixed, Writev),
            Op::Fsync => opcode::Fsync::new(file).build(),
            Op::FsyncData => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            Op::Discard | Op::WriteZeroes => opcode::Fallocate::new(file, command.bytes)
                .offset(offset)
                .mode(fallocate_mode(command.op))
                .build(),
        }
    }};
}

pub(super) struct RingLane {
    ring: IoUring,
    rung: Rung,
    file: Arc<OwnedFd>,
    file_is_registered: bool,
    /// Keeps what is registered alive.
    buffers: Option<BufferPool>,
    doorbell: Arc<Doorbell>,
    /// Where the kernel leaves the doorbell's count.
    rings: Box<u64>,
    doorbell_is_read: bool,
    in_flight: u32,
    depth: u32,
    refused: Vec<String>,
    /// The file system cannot serve a request without a thread that may block: so the kernel is told
    /// not to try (preadv2(2), RWF_NOWAIT). On a file in memory that brought a third more requests.
    never_at_once: bool,
}

impl RingLane {
    /// The best ring that works here.
    ///
    /// # Errors
    /// What each rung said, where none works.
    pub(super) fn new(
        file: Arc<OwnedFd>,
        depth: u32,
        options: RingOptions,
    ) -> Result<Self, Vec<String>> {
        let mut refused = Vec::new();
        for rung in rungs(options) {
            let made = build(rung, depth)
                .and_then(|mut ring| probe(&mut ring, rung, &file).map(|()| ring))
                .and_then(|ring| Self::with_ring(ring, rung, Arc::clone(&file), depth));
            match made {
                Ok(mut lane) => {
                    lane.refused = refused;
                    lane.limit_workers(options.blocking_workers);
                    return Ok(lane);
                }
                Err(error) => refused.push(format!("{}: {error}", rung.name())),
            }
        }
        Err(refused)
    }

    fn with_ring(ring: IoUring, rung: Rung, file: Arc<OwnedFd>, depth: u32) -> io::Result<Self> {
        let mut supported = Probe::new();
        ring.submitter().register_probe(&mut supported)?;
        if !supported.is_supported(opcode::AsyncCancel::CODE) {
            return Err(io::Error::other("requests cannot be cancelled"));
        }
        let never_at_once = never_at_once(&file);
        let file_is_registered = ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        // Saves the look-up of the ring in each call; where it cannot be, calls look it up.
        let _ = ring.submitter().register_ring_fd();
        Ok(Self {
            ring,
            rung,
            file,
            file_is_registered,
            buffers: None,
            doorbell: Arc::new(Doorbell::new()?),
            rings: Box::new(0),
            doorbell_is_read: false,
            in_flight: 0,
            depth,
            refused: Vec::new(),
            never_at_once,
        })
    }

    fn limit_workers(&mut self, most: Option<u32>) {
        let Some(most) = most else { return };
        if let Err(error) = self.ring.submitter().register_iowq_max_workers(&mut [most, 0]) {
            self.refused.push(format!("at most {most} blocking workers: {error}"));
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the memory that entries name is good until their completion: a command's by the
        // contract of `start`, the doorbell's because the drop waits for its read.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return true;
        }
        // SAFETY: as above.
        self.ring.submit().is_ok() && unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    fn entry(&self, command: &Command) -> squeue::Entry {
        if self.file_is_registered {
            entry_on!(types::Fixed(0), command)
        } else {
            entry_on!(types::Fd(self.file.as_raw_fd()), command)
        }
    }

    /// Has the ring read the doorbell, so that ringing it ends a wait.
    fn listen(&mut self) {
        if self.doorbell_is_read || self.rung.iopoll {
            return;
        }
        let event = types::Fd(self.doorbell.event.as_raw_fd());
        let into = (&raw mut *self.rings).cast::<u8>();
        self.doorbell_is_read =
            self.push(&opcode::Read::new(event, into, 8).build().user_data(WOKEN));
    }

    fn enter(&mut self, wanted: u32, timeout: Option<Duration>) -> io::Result<()> {
        let timespec = timeout.map(types::Timespec::from);
        let mut args = types::SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        if wanted > 1 && self.ring.params().is_feature_min_timeout() {
            args = args.min_wait_usec(COMPANY_US);
        }
        let wanted = if self.ring.params().is_feature_min_timeout() { wanted } else { 1 };
        let entered = if self.ring.params().is_feature_ext_arg() {
            self.ring.submitter().submit_with_args(wanted as usize, &args)
        } else {
            // Before Linux 5.11: a wait without a limit in time.
            self.ring.submit_and_wait(wanted as usize)
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Sleeps on the doorbell alone, where the ring cannot read it.
    fn sleep(&self, timeout: Option<Duration>) {
        let mut poll =
            libc::pollfd { fd: self.doorbell.event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = timeout.map_or(-1, |timeout| {
            i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
        });
        let mut count = 0_u64;
        // SAFETY: one live pollfd, and eight bytes for the count; a read follows only where there
        // is something to be read.
        unsafe {
            if libc::poll(&raw mut poll, 1, ms) > 0 {
                libc::read(poll.fd, (&raw mut count).cast(), 8);
            }
        }
    }
}

// SAFETY: the kernel touches a command's memory until its completion, and the drop waits for all
// completions.
unsafe impl Lane for RingLane {
    unsafe fn start(&mut self, command: &Command) -> bool {
        if self.in_flight >= self.depth {
            return false;
        }
        let mut entry = self.entry(command).user_data(command.id);
        if self.never_at_once {
            entry = entry.flags(squeue::Flags::ASYNC);
        }
        let taken = self.push(&entry);
        self.in_flight += u32::from(taken);
        taken
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit() {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn reap(&mut self, into: &mut Vec<Reaped>) {
        if self.ring.submission().taskrun() || self.rung.iopoll && self.in_flight > 0 {
            // Completions are there once the kernel has run what it put off. What goes wrong here
            // comes again with the next flush, which tells it.
            let _ = self.ring.submit();
        }
        for completion in self.ring.completion() {
            reaped(&completion, into, &mut self.in_flight, &mut self.doorbell_is_read);
        }
    }

    fn wait(&mut self, wanted: u32, timeout: Option<Duration>) -> io::Result<()> {
        self.listen();
        self.doorbell.asleep.store(true, SeqCst);
        let done = if self.doorbell.rung.swap(false, SeqCst) || !self.ring.completion().is_empty() {
            self.flush()
        } else if self.rung.iopoll && self.in_flight == 0 {
            self.sleep(timeout);
            Ok(())
        } else {
            self.enter(wanted.clamp(1, self.in_flight.max(1)), timeout)
        };
        self.doorbell.asleep.store(false, SeqCst);
        self.doorbell.rung.store(false, SeqCst);
        done
    }

    fn cancel(&mut self, id: u64) {
        // A ring that polls has no way to cancel; its requests end soon in any case.
        if !self.rung.iopoll {
            self.push(&opcode::AsyncCancel::new(id).build().user_data(CANCELLED));
        }
    }

    fn waker(&self) -> Waker {
        let doorbell = Arc::clone(&self.doorbell);
        Arc::new(move || doorbell.ring())
    }

    fn register(&mut self, pool: &BufferPool) -> io::Result<bool> {
        if self.buffers.is_some() {
            return Ok(false);
        }
        // SAFETY: the pool's memory lives as long as the pool, which is kept beside the ring.
        unsafe { self.ring.submitter().register_buffers(&pool.extents()) }?;
        self.buffers = Some(pool.clone());
        Ok(true)
    }

    fn describe(&self) -> String {
        let mut text = format!("io_uring {}", self.rung.name());
        if self.file_is_registered {
            text.push_str(", registered file");
        }
        if self.never_at_once {
            text.push_str(", by kernel workers");
        }
        if self.buffers.is_some() {
            text.push_str(", registered buffers");
        }
        if !self.refused.is_empty() {
            text.push_str(&format!(" (refused: {})", self.refused.join("; ")));
        }
        text
    }
}

fn reaped(
    completion: &cqueue::Entry,
    into: &mut Vec<Reaped>,
    in_flight: &mut u32,
    doorbell_is_read: &mut bool,
) {
    match completion.user_data() {
        WOKEN => *doorbell_is_read = false,
        CANCELLED | PROBED => {}
        id => {
            *in_flight -= 1;
            into.push(Reaped { id, result: completion.result() });
        }
    }
}

impl Drop for RingLane {
    fn drop(&mut self) {
        if self.doorbell_is_read {
            // The read of the doorbell is a use of memory too.
            self.push(&opcode::AsyncCancel::new(WOKEN).build().user_data(CANCELLED));
        }
        let mut reaped = Vec::new();
        while self.in_flight > 0 || self.doorbell_is_read {
            if self.enter(1, None).is_err() {
                // The ring itself is broken, so nobody can say when the kernel is done with the
                // doorbell's memory.
                std::mem::forget(std::mem::take(&mut self.rings));
                break;
            }
            self.reap(&mut reaped);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_ends_with_what_every_kernel_has() {
        let all = RingOptions { sqpoll_idle_ms: Some(1), iopoll: true, blocking_workers: None };
        for options in [RingOptions::default(), all] {
            let rungs = rungs(options);
            assert_eq!(rungs.last().unwrap().name(), "plain");
        }
        assert_eq!(rungs(RingOptions::default())[0].name(), "SINGLE_ISSUER|DEFER_TASKRUN");
        assert_eq!(rungs(all).len(), 12);
    }
}

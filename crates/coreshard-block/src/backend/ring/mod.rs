//! Commands executed by the kernel through io_uring.
//!
//! 1. A ring is created on the thread that uses it, and used by no other. Other threads reach it by a message
//!    into the ring, or else by an eventfd that the ring reads ([`doorbell`]).
//! 2. The kernel's features are probed by using them, best first ([`setup`]). [`Channel::describe`] lists the
//!    refused ones, and why.
//! 3. The kernel owns a command's memory until its completion; the drop waits for all completions.
#![allow(unsafe_code)]

mod doorbell;
mod setup;
#[cfg(all(test, not(loom)))]
mod tests;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use coreshard_platform::Platform;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use super::channel::{Channel, Waker};
use super::channel::{Command, Completion, Data};
use super::sync::fallocate_mode;
use crate::buffer::BufferPool;
use crate::request::Op;

use doorbell::{CANCELLED, Doorbell, PROBED, WOKEN};
pub(super) use setup::Refusals;
pub use setup::{RingOptions, RingWake};
use setup::{RingSetup, build, lacks_nowait, probe, probe_message, reopened, setups};

/// A command as a submission queue entry. A macro, since the trait of io_uring's file types has no public
/// name.
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
            Op::Discard | Op::WriteZeroes if command.bytes == 0 => opcode::Nop::new().build(),
            Op::Discard | Op::WriteZeroes => opcode::Fallocate::new(file, command.bytes)
                .offset(offset)
                .mode(fallocate_mode(command.op))
                .build(),
        }
    }};
}

pub(super) struct RingChannel<P: Platform> {
    ring: IoUring,
    setup: RingSetup,
    file: Arc<OwnedFd>,
    file_is_registered: bool,
    /// Keeps registered buffers alive.
    buffers: Option<BufferPool>,
    doorbell: Arc<Doorbell<P>>,
    /// The eventfd that the ring reads to be woken, if it gets no messages.
    event: Option<RawFd>,
    /// The kernel writes the eventfd's count here.
    event_count: Box<u64>,
    event_is_read: bool,
    in_flight: u32,
    depth: u32,
    refused: Vec<String>,
    /// The file system cannot serve a request without a thread that may block (preadv2(2), RWF_NOWAIT). Each
    /// request therefore goes to a kernel worker at once, and neither file nor buffers are registered: a
    /// worker that looks up a registered resource takes the ring's lock and contends with the submitting
    /// thread. Instead, the file is opened once more, so that workers of different threads do not share a
    /// reference count.
    lacks_nowait: bool,
}

impl<P: Platform> RingChannel<P> {
    /// Creates the best ring that works here.
    ///
    /// # Errors
    /// If no setup works; the error has the refusal of each.
    pub(super) fn new(
        file: Arc<OwnedFd>,
        depth: u32,
        options: RingOptions,
    ) -> Result<Self, Refusals> {
        let mut refused = Refusals::default();
        for setup in setups(options) {
            let made = build(setup, depth)
                .and_then(|mut ring| probe(&mut ring, setup, &file).map(|()| ring))
                .and_then(|ring| Self::with_ring(ring, setup, &file, depth, options.wake));
            match made {
                Ok((mut channel, further)) => {
                    refused.append(further);
                    channel.limit_workers(options.blocking_workers, &mut refused);
                    channel.refused = refused.texts();
                    return Ok(channel);
                }
                Err(error) => refused.push(setup.name(), &error),
            }
        }
        Err(refused)
    }

    fn with_ring(
        mut ring: IoUring,
        setup: RingSetup,
        file: &Arc<OwnedFd>,
        depth: u32,
        wake: RingWake,
    ) -> io::Result<(Self, Refusals)> {
        let mut supported = Probe::new();
        ring.submitter().register_probe(&mut supported)?;
        if !supported.is_supported(opcode::AsyncCancel::CODE) {
            return Err(io::Error::other("requests cannot be cancelled"));
        }
        let mut refused = Refusals::default();
        let lacks_nowait = lacks_nowait(file);
        let file = match lacks_nowait.then(|| reopened(file)) {
            Some(Ok(own)) => Arc::new(own),
            Some(Err(error)) => {
                refused.push("its own open file description".to_owned(), &error);
                Arc::clone(file)
            }
            None => Arc::clone(file),
        };
        let file_is_registered =
            !lacks_nowait && ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        // Saves the lookup of the ring's descriptor in each call, if the kernel supports it.
        let _ = ring.submitter().register_ring_fd();
        // A ring that polls for completions is not woken if it has no request to poll for.
        let message = match wake {
            RingWake::Message if !setup.iopoll => Some(probe_message(&mut ring)),
            _ => None,
        };
        let (doorbell, event) = match message {
            Some(Ok(())) => (Doorbell::of_ring(ring.as_raw_fd()), None),
            refusal => {
                if let Some(Err(error)) = refusal {
                    refused.push("ring messages".to_owned(), &error);
                }
                let (doorbell, event) = Doorbell::of_event()?;
                (doorbell, Some(event))
            }
        };
        let channel = Self {
            ring,
            setup,
            file,
            file_is_registered,
            buffers: None,
            doorbell: Arc::new(doorbell),
            event,
            event_count: Box::new(0),
            event_is_read: false,
            in_flight: 0,
            depth,
            refused: Vec::new(),
            lacks_nowait,
        };
        Ok((channel, refused))
    }

    fn limit_workers(&mut self, most: Option<u32>, refused: &mut Refusals) {
        let Some(most) = most else { return };
        if let Err(error) = self.ring.submitter().register_iowq_max_workers(&mut [most, 0]) {
            refused.push(format!("at most {most} blocking workers"), &error);
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the memory that entries refer to is valid until their completion: a command's by the
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

    /// Makes the ring read its eventfd, if it gets no messages.
    fn arm_event(&mut self) {
        let Some(event) = self.event else { return };
        if self.event_is_read || self.setup.iopoll {
            return;
        }
        let into = (&raw mut *self.event_count).cast::<u8>();
        self.event_is_read =
            self.push(&opcode::Read::new(types::Fd(event), into, 8).build().user_data(WOKEN));
    }

    /// Submits all entries, and waits for one completion. Waiting for several was slower: the device having
    /// less to do meanwhile costs more than the saved calls.
    fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timespec = timeout.map(types::Timespec::from);
        let mut args = types::SubmitArgs::new();
        if let Some(timespec) = &timespec {
            args = args.timespec(timespec);
        }
        let entered = if self.ring.params().is_feature_ext_arg() {
            self.ring.submitter().submit_with_args(1, &args)
        } else {
            // Before Linux 5.11: a wait without a timeout.
            self.ring.submit_and_wait(1)
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Sleeps on the eventfd alone, if the ring cannot read it.
    fn sleep_on(event: RawFd, timeout: Option<Duration>) {
        let mut poll = libc::pollfd { fd: event, events: libc::POLLIN, revents: 0 };
        let ms = timeout.map_or(-1, |timeout| {
            i32::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
        });
        let mut count = 0_u64;
        // SAFETY: one live pollfd, and eight bytes for the count. A read follows only if the eventfd is
        // readable.
        unsafe {
            if libc::poll(&raw mut poll, 1, ms) > 0 {
                libc::read(poll.fd, (&raw mut count).cast(), 8);
            }
        }
    }
}

// SAFETY: the kernel accesses a command's memory only until its completion, and the drop waits for all
// completions.
unsafe impl<P: Platform> Channel for RingChannel<P> {
    unsafe fn start(&mut self, command: &Command) -> bool {
        if self.in_flight >= self.depth {
            return false;
        }
        let mut entry = self.entry(command).user_data(command.id);
        if self.lacks_nowait {
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

    fn reap(&mut self, into: &mut Vec<Completion>) {
        if self.ring.submission().taskrun() || self.setup.iopoll && self.in_flight > 0 {
            // Completions appear once the kernel has run its deferred work. An error here recurs at the next
            // flush, which reports it.
            let _ = self.ring.submit();
        }
        for entry in self.ring.completion() {
            take_entry(&entry, into, &mut self.in_flight, &mut self.event_is_read);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.arm_event();
        if !self.ring.completion().is_empty() || !self.doorbell.state().prepare_to_wait() {
            return self.flush();
        }
        let done = match self.event {
            Some(event) if self.setup.iopoll && self.in_flight == 0 => {
                Self::sleep_on(event, timeout);
                Ok(())
            }
            _ => self.enter(timeout),
        };
        self.doorbell.state().finish_wait();
        done
    }

    fn cancel(&mut self, id: u64) {
        // A ring that polls cannot cancel; its requests end soon in any case.
        if !self.setup.iopoll {
            self.push(&opcode::AsyncCancel::new(id).build().user_data(CANCELLED));
        }
    }

    fn waker(&self) -> Waker {
        let doorbell = Arc::clone(&self.doorbell);
        Arc::new(move || doorbell.ring())
    }

    fn register(&mut self, pool: &BufferPool) -> io::Result<bool> {
        if self.buffers.is_some() || self.lacks_nowait {
            return Ok(false);
        }
        // SAFETY: the pool's memory lives as long as the pool, which is stored beside the ring.
        unsafe { self.ring.submitter().register_buffers(&pool.extents()) }?;
        self.buffers = Some(pool.clone());
        Ok(true)
    }

    fn describe(&self) -> String {
        let mut text = format!("io_uring {}", self.setup.name());
        if self.file_is_registered {
            text.push_str(", registered file");
        }
        if self.lacks_nowait {
            text.push_str(", by kernel workers");
        }
        if self.buffers.is_some() {
            text.push_str(", registered buffers");
        }
        text.push_str(match self.event {
            None => ", woken by ring messages",
            Some(_) => ", woken by eventfd",
        });
        if !self.refused.is_empty() {
            text.push_str(&format!(" (refused: {})", self.refused.join("; ")));
        }
        text
    }
}

fn take_entry(
    entry: &cqueue::Entry,
    into: &mut Vec<Completion>,
    in_flight: &mut u32,
    event_is_read: &mut bool,
) {
    match entry.user_data() {
        WOKEN => *event_is_read = false,
        CANCELLED | PROBED => {}
        id => {
            *in_flight -= 1;
            into.push(Completion { id, result: entry.result() });
        }
    }
}

impl<P: Platform> Drop for RingChannel<P> {
    fn drop(&mut self) {
        self.doorbell.disconnect();
        if self.event_is_read {
            // The read of the eventfd also uses memory.
            self.push(&opcode::AsyncCancel::new(WOKEN).build().user_data(CANCELLED));
        }
        let mut completions = Vec::new();
        while self.in_flight > 0 || self.event_is_read {
            if self.enter(None).is_err() {
                // The ring itself is broken, so it is unknown when the kernel finishes with the eventfd's
                // memory.
                std::mem::forget(std::mem::take(&mut self.event_count));
                break;
            }
            self.reap(&mut completions);
        }
    }
}

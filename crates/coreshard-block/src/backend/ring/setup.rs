//! Ring setups, best first, and probes that show that they work.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use io_uring::{IoUring, opcode, types};

use super::doorbell::{PROBED, send_message};
use crate::buffer::{Buffer, PAGE_BYTES};

/// Options of a ring, in addition to the features that are always tried.
///
/// Use `..RingOptions::default()` for the remaining fields; later versions may add some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingOptions {
    /// Lets a kernel thread take submissions, so that submitting needs no system call. It spins for this
    /// long, in milliseconds, before it sleeps. Default: no such thread.
    pub sqpoll_idle_ms: Option<u32>,
    /// Polls for completions instead of using interrupts. Only for direct I/O on devices with poll queues.
    /// Default: no.
    pub iopoll: bool,
    /// The most kernel threads for requests that would block the submitter. Default: `None`, the kernel's own
    /// bound (at most 4 per CPU).
    pub blocking_workers: Option<u32>,
    /// How other threads wake the ring's thread. Default: [`RingWake::Message`].
    pub wake: RingWake,
}

/// How other threads wake a ring's thread out of [`Channel::wait`](crate::Channel::wait).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingWake {
    /// By a message into the ring (IORING_OP_MSG_RING; Linux 6.13); if unsupported, as `Event`.
    #[default]
    Message,
    /// By an eventfd that the ring reads.
    Event,
}

/// The flags that a ring is created with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RingSetup {
    pub(super) single_issuer: bool,
    pub(super) defer: bool,
    pub(super) coop: bool,
    pub(super) sqpoll: Option<u32>,
    pub(super) iopoll: bool,
}

impl RingSetup {
    pub(super) fn name(self) -> String {
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

/// The setups that the kernel refused, and why, for people.
#[derive(Debug, Default)]
pub(in crate::backend) struct Refusals {
    /// The setups, and the reason.
    refused: Vec<(String, String)>,
    /// The errno of the last refusal, if the kernel gave one.
    errno: Option<i32>,
}

impl Refusals {
    /// Adds a refusal. It is merged with the last one if both have the same reason.
    pub(super) fn push(&mut self, what: String, why: &io::Error) {
        self.errno = why.raw_os_error();
        let why = why.to_string();
        match self.refused.last_mut() {
            Some((before, same)) if *same == why => *before += &format!(", {what}"),
            _ => self.refused.push((what, why)),
        }
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.refused.append(&mut other.refused);
    }

    /// Returns the kernel's last errno: that of the simplest setup, which is tried last.
    pub(in crate::backend) fn errno(&self) -> Option<i32> {
        self.errno
    }

    pub(in crate::backend) fn texts(self) -> Vec<String> {
        self.refused.into_iter().map(|(what, why)| format!("{what}: {why}")).collect()
    }
}

/// Returns the setups to try, best first.
pub(super) fn setups(options: RingOptions) -> Vec<RingSetup> {
    let bare = RingSetup::default();
    let mut setups = Vec::new();
    let polls: &[bool] = if options.iopoll { &[true, false] } else { &[false] };
    for iopoll in polls.iter().copied() {
        if let Some(idle) = options.sqpoll_idle_ms {
            let sqpoll = RingSetup { sqpoll: Some(idle), iopoll, ..bare };
            setups.extend([RingSetup { single_issuer: true, ..sqpoll }, sqpoll]);
        }
        setups.extend([
            RingSetup { single_issuer: true, defer: true, iopoll, ..bare },
            RingSetup { single_issuer: true, coop: true, iopoll, ..bare },
            RingSetup { coop: true, iopoll, ..bare },
            RingSetup { iopoll, ..bare },
        ]);
    }
    setups
}

pub(super) fn build(setup: RingSetup, depth: u32) -> io::Result<IoUring> {
    // The kernel clamps values above its own limits, which are far below this.
    let depth = depth.min(1 << 20);
    let mut builder = IoUring::builder();
    builder.dontfork().setup_clamp().setup_cqsize((depth * 2 + 16).next_power_of_two());
    if setup.single_issuer {
        builder.setup_single_issuer();
    }
    if setup.defer {
        builder.setup_defer_taskrun().setup_taskrun_flag();
    }
    if setup.coop {
        builder.setup_coop_taskrun().setup_taskrun_flag();
    }
    if let Some(idle) = setup.sqpoll {
        builder.setup_sqpoll(idle);
    }
    if setup.iopoll {
        builder.setup_iopoll();
    }
    builder.build((depth + 8).next_power_of_two())
}

/// Makes the ring execute a read: a ring with IOPOLL can be created although every read on it fails.
pub(super) fn probe(ring: &mut IoUring, setup: RingSetup, file: &OwnedFd) -> io::Result<()> {
    let scratch = Buffer::aligned(PAGE_BYTES);
    let entry = if setup.iopoll {
        let file = types::Fd(file.as_raw_fd());
        opcode::Read::new(file, scratch.start(), PAGE_BYTES as u32).build()
    } else {
        opcode::Nop::new().build()
    };
    // SAFETY: the scratch buffer lives until the completion, which is awaited below.
    unsafe { ring.submission().push(&entry.user_data(PROBED)) }
        .map_err(|_| io::Error::other("a new ring is full"))?;
    let probed = completion(ring);
    if probed.is_none() {
        // The read may still be in progress, so its memory is leaked.
        std::mem::forget(scratch);
    }
    match probed {
        Some(0..) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::Error::other("the kernel does not wait for completions")),
    }
}

/// Waits for a completion and returns its result; `None` if the kernel refuses to wait.
fn completion(ring: &mut IoUring) -> Option<i32> {
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(_) => return None,
        }
        if let Some(completion) = ring.completion().next() {
            return Some(completion.result());
        }
    }
}

/// Makes the ring receive a message.
pub(super) fn probe_message(ring: &mut IoUring) -> io::Result<()> {
    send_message(ring.as_raw_fd(), PROBED)?;
    match completion(ring) {
        Some(_) => Ok(()),
        None => Err(io::Error::other("the kernel does not wait for completions")),
    }
}

/// Returns whether the file system cannot read without a thread that may block.
pub(super) fn lacks_nowait(file: &OwnedFd) -> bool {
    let scratch = Buffer::aligned(PAGE_BYTES);
    let piece = libc::iovec { iov_base: scratch.start().cast(), iov_len: PAGE_BYTES };
    // SAFETY: one live piece of memory, and an open descriptor.
    let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const piece, 1, 0, libc::RWF_NOWAIT) };
    read < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP)
}

/// Opens the file once more, so that taking and dropping a reference for a request writes no line that other
/// threads write.
pub(super) fn reopened(file: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: reads the flags of an open descriptor.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let writes = flags & libc::O_ACCMODE == libc::O_RDWR;
    let opened = OpenOptions::new()
        .read(true)
        .write(writes)
        .custom_flags(flags & libc::O_DIRECT)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    opened.map(OwnedFd::from)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_setup_needs_no_optional_feature() {
        let all = RingOptions { sqpoll_idle_ms: Some(1), iopoll: true, ..RingOptions::default() };
        for options in [RingOptions::default(), all] {
            let setups = setups(options);
            assert_eq!(setups.last().unwrap().name(), "plain");
        }
        assert_eq!(setups(RingOptions::default())[0].name(), "SINGLE_ISSUER|DEFER_TASKRUN");
        assert_eq!(setups(all).len(), 12);
    }

    #[test]
    fn a_reason_is_told_once() {
        let mut refusals = Refusals::default();
        let error = io::Error::from_raw_os_error;
        refusals.push("A".to_owned(), &error(libc::EPERM));
        refusals.push("B".to_owned(), &error(libc::EPERM));
        refusals.push("C".to_owned(), &error(libc::EINVAL));
        let texts = refusals.texts();
        assert!(texts[0].starts_with("A, B: Operation not permitted"), "{texts:?}");
        assert!(texts[1].starts_with("C: Invalid argument") && texts.len() == 2, "{texts:?}");
    }
}

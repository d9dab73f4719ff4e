//! Checks that a ring works as its description says.

#![expect(clippy::print_stderr, reason = "a test that skips a part reports it")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use coreshard_platform::Host;
use testing::{Lack, skip};

use super::doorbell::send_message;
use super::*;
use crate::buffer::{Buffer, PAGE_BYTES};
use crate::{Engine, File, FileOptions, HostAdapter, HostOptions, QueueOptions, Request};

fn channel(file: &Arc<OwnedFd>, options: RingOptions) -> Option<RingChannel<Host>> {
    // A sandbox may forbid io_uring.
    match RingChannel::new(Arc::clone(file), 8, options) {
        Ok(channel) => Some(channel),
        Err(refusals) => {
            skip(Lack::IoUring, refusals.texts().join("; "));
            None
        }
    }
}

fn blocks(path: &Path, direct: bool) -> Option<Arc<OwnedFd>> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::write(path, vec![7; 16 * PAGE_BYTES]).unwrap();
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let opened = std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    // Not every file system supports direct I/O.
    opened.ok().map(|file| Arc::new(OwnedFd::from(file)))
}

/// Reads and writes through the channel until each command has completed.
fn moves_data(channel: &mut RingChannel<Host>) -> Vec<i32> {
    let mut buffers: Vec<Buffer> = (0..8).map(|_| Buffer::aligned(PAGE_BYTES)).collect();
    for (at, buffer) in buffers.iter_mut().enumerate() {
        let data = Data::One { start: buffer.start(), bytes: PAGE_BYTES, registered: None };
        let op = if at % 2 == 0 { Op::Read } else { Op::Write };
        let offset = (at * PAGE_BYTES) as u64;
        let command = Command { id: at as u64, op, offset, bytes: 0, data, ioprio: 0 };
        // SAFETY: the buffers outlive the loop below, which sees every completion.
        assert!(unsafe { channel.start(&command) });
    }
    let mut completions = Vec::new();
    while completions.len() < 8 {
        channel.wait(None).unwrap();
        channel.reap(&mut completions);
    }
    assert!(buffers.iter().step_by(2).all(|buffer| buffer.iter().all(|byte| *byte == 7)));
    completions.into_iter().map(|one| one.result).collect()
}

#[test]
fn what_was_probed_is_what_happens() {
    let folder = tempfile::tempdir().unwrap();
    for direct in [false, true] {
        let Some(file) = blocks(&folder.path().join("file"), direct) else {
            skip(Lack::Disk, "no direct I/O in the folder for temporary files");
            continue;
        };
        for (sqpoll_idle_ms, iopoll) in
            [(None, false), (Some(5), false), (None, true), (Some(5), true)]
        {
            let options = RingOptions { sqpoll_idle_ms, iopoll, ..RingOptions::default() };
            let Some(mut channel) = channel(&file, options) else { return };
            let how = channel.describe();
            eprintln!("direct: {direct}, {options:?}: {how}");
            assert_eq!(moves_data(&mut channel), [PAGE_BYTES as i32; 8], "{how}");
            // Either the feature is in use, or the description says why not.
            let (is, refused) = how.split_once(" (refused: ").unwrap_or((&how, ""));
            for (wanted, word) in [(sqpoll_idle_ms.is_some(), "SQPOLL"), (iopoll, "IOPOLL")] {
                assert!(wanted || !how.contains(word), "{how}");
                assert!(!wanted || is.contains(word) || refused.contains(word), "{how}");
            }
            assert_eq!(channel.ring.params().is_setup_sqpoll(), is.contains("SQPOLL"), "{how}");
            assert_eq!(channel.ring.params().is_setup_iopoll(), is.contains("IOPOLL"), "{how}");
        }
    }
}

/// The reason for probing: creating a ring does not prove that it works.
#[test]
fn a_polling_ring_that_was_refused_fails_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = blocks(&folder.path().join("file"), false).unwrap();
    let setup = RingSetup { iopoll: true, ..RingSetup::default() };
    let Ok(mut ring) = build(setup, 4) else {
        return skip(Lack::Iopoll, "no such ring can be made");
    };
    // A read through the page cache cannot be polled for, whatever the device supports.
    let error = probe(&mut ring, setup, &file).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
}

#[test]
fn another_thread_wakes_a_ring_by_message_and_by_event() {
    let folder = tempfile::tempdir().unwrap();
    let file = blocks(&folder.path().join("file"), false).unwrap();
    for wake in [RingWake::Message, RingWake::Event] {
        let Some(mut channel) = channel(&file, RingOptions { wake, ..RingOptions::default() })
        else {
            return;
        };
        let how = channel.describe();
        let by_event = how.contains("woken by eventfd");
        assert_eq!(channel.event.is_some(), by_event);
        match wake {
            RingWake::Event => assert!(by_event && !how.contains("ring messages"), "{how}"),
            // An older kernel reports that it lacks messages, and the eventfd is used.
            RingWake::Message if by_event => assert!(how.contains("ring messages: "), "{how}"),
            RingWake::Message => assert!(how.contains("woken by ring messages"), "{how}"),
        }
        // Nothing is in flight, so only the doorbell ends a wait.
        let turn = Arc::new(std::sync::Barrier::new(2));
        let (waker, turns) = (channel.waker(), Arc::clone(&turn));
        let ringer = std::thread::spawn(move || {
            for round in 0..100_u64 {
                turns.wait();
                if round % 3 == 0 {
                    // Long enough that the other thread usually sleeps.
                    std::thread::sleep(Duration::from_millis(1));
                }
                waker();
            }
            waker
        });
        for _ in 0..100 {
            turn.wait();
            channel.wait(None).unwrap();
            channel.reap(&mut Vec::new());
        }
        let waker = ringer.join().unwrap();
        drop(channel);
        // A doorbell may outlive its ring.
        waker();
        waker();
    }
}

#[test]
fn a_message_for_what_is_no_ring_is_an_error() {
    let file = tempfile::tempfile().unwrap();
    assert!(send_message(file.as_raw_fd(), WOKEN).is_err());
}

/// A thread has its requests executed by another thread's ring, and each sleeps until the other wakes it.
#[test]
fn completions_reach_the_thread_that_submitted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    for wake in [RingWake::Message, RingWake::Event] {
        let raw = blocks(&path, false).unwrap();
        let ring = RingOptions { wake, ..RingOptions::default() };
        if channel(&raw, ring).is_none() {
            return;
        }
        let options = FileOptions { engine: Engine::IoUring, ring, ..FileOptions::default() };
        let file = File::open(&path, options).unwrap();
        let options = HostOptions { threads: 2, ..HostOptions::default() };
        let host = HostAdapter::<Host>::new(options).unwrap();
        let device = host.target("t").device(Arc::new(file)).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let server = std::thread::spawn({
            let (device, over) = (Arc::clone(&device), Arc::clone(&over));
            move || {
                let mut queue = device.queue(1, QueueOptions::default()).unwrap();
                tell.send(queue.remote()).unwrap();
                queue.block_on(std::future::poll_fn(|_| match over.load(SeqCst) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }));
            }
        });
        let remote = told.recv().unwrap();
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        for round in 0..200 {
            let offset = round % 16 * PAGE_BYTES as u64;
            let read = remote.send(Request::read(offset, Buffer::aligned(PAGE_BYTES)));
            let read = queue.block_on(read);
            assert_eq!(read.result.unwrap(), PAGE_BYTES);
            assert_eq!(read.payload.into_one().unwrap().into_vec(), [7; PAGE_BYTES]);
        }
        over.store(true, SeqCst);
        drop(remote.send(Request::read(0, Buffer::aligned(PAGE_BYTES))));
        server.join().unwrap();
        let counts = device.counts();
        assert_eq!(counts.issued, counts.done);
    }
}

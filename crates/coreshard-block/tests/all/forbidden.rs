//! Environments that forbid io_uring, as many containers do: a seccomp filter answers its system calls as a
//! container's filter would, or as a kernel without io_uring.

use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use coreshard_block::{
    Buffer, Engine, Executor, File, FileOptions, HostAdapter, HostOptions, Job, PAGE_BYTES, Queue,
    QueueOptions, Request,
};
use coreshard_platform::Host;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use testing::{Lack, NEVER, skip, within};

/// A system call, optionally restricted to this second argument `operation`.
type Call = (i64, Option<u64>);

/// From now on the calling thread, and threads that it starts, get `errno` for `call`. Returns false, with a
/// message, if filters are unavailable.
fn forbid((call, operation): Call, errno: i32) -> bool {
    let forbidden = || -> Result<(), Box<dyn std::error::Error>> {
        let rules = match operation {
            None => Vec::new(),
            Some(operation) => {
                let is =
                    SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, operation)?;
                vec![SeccompRule::new(vec![is])?]
            }
        };
        let answer = SeccompAction::Errno(errno as u32);
        let arch = std::env::consts::ARCH.try_into()?;
        let rules = [(call, rules)].into_iter().collect();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?;
        seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
        Ok(())
    };
    let forbidden = forbidden();
    if let Err(error) = &forbidden {
        skip(Lack::Seccomp, error);
    }
    forbidden.is_ok()
}

/// Runs `body` on a thread that gets `errno` for `call`.
fn forbidden(call: Call, errno: i32, body: impl FnOnce() + Send + 'static) {
    within(NEVER, move || {
        if forbid(call, errno) {
            body();
        }
    });
}

fn threads() -> Arc<dyn Executor> {
    Arc::new(|job: Job| {
        std::thread::spawn(job);
        Ok(())
    })
}

fn queue(path: &Path, options: FileOptions) -> Result<Queue<Host>, String> {
    std::fs::write(path, vec![0; 1 << 20]).unwrap();
    let file = File::open(path, FileOptions { write: true, ..options }).unwrap();
    let host = HostAdapter::<Host>::new(HostOptions::default()).unwrap();
    let device = host.target("t").device(Arc::new(file)).unwrap();
    device.queue(0, QueueOptions::default()).map_err(|error| error.to_string())
}

fn moves_data(queue: &mut Queue<Host>) {
    for block in 0..32_u8 {
        let mut buffer = Buffer::aligned(PAGE_BYTES);
        buffer.fill(block + 1);
        queue.submit(Request::write(u64::from(block) * 4096, buffer), 0).unwrap();
    }
    while let Some(completed) = queue.wait_for_one() {
        assert_eq!(completed.result.unwrap(), PAGE_BYTES);
    }
    let synced = queue.send(Request::fsync());
    queue.block_on(synced).result.unwrap();
    for block in 0..32_u8 {
        let read = Request::read(u64::from(block) * 4096, Buffer::aligned(PAGE_BYTES));
        let read = queue.send(read);
        let bytes = queue.block_on(read).payload.into_one().unwrap().into_vec();
        assert!(bytes.iter().all(|byte| *byte == block + 1), "block {block}");
    }
    let counts = queue.device().counts();
    assert_eq!((counts.issued, counts.done, counts.errors), (65, 65, 0));
}

/// A folder that is not in memory, where io_uring would not be tried.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn without_io_uring_there_is_a_remedy_or_another_engine() {
    for (errno, words) in
        [(libc::EPERM, "Operation not permitted"), (libc::ENOSYS, "Function not implemented")]
    {
        forbidden((libc::SYS_io_uring_setup, None), errno, move || {
            let folder = folder();
            let path = folder.path().join("file");
            // Requested by name: an error with the remedy.
            let engine = Engine::IoUring;
            let error = queue(&path, FileOptions { engine, ..Default::default() }).unwrap_err();
            let variants =
                "SINGLE_ISSUER|DEFER_TASKRUN, SINGLE_ISSUER|COOP_TASKRUN, COOP_TASKRUN, plain";
            for word in [path.to_str().unwrap(), variants, words, "a seccomp filter is in force"] {
                assert!(error.contains(word), "{word:?} is not in {error}");
            }
            // Otherwise the next best engine is used, and the description says why.
            let auto = FileOptions::default;
            let with_threads = FileOptions { executor: Some(threads()), ..auto() };
            for (options, engine) in [(auto(), "sync"), (with_threads, "thread pool")] {
                let mut queue = queue(&path, options).unwrap();
                let how = queue.describe();
                if how.contains("the file is in memory") {
                    return skip(Lack::Disk, "the build folder is in memory");
                }
                assert!(
                    how.starts_with(&format!("{engine} (no io_uring: {variants}: {words}")),
                    "{how}"
                );
                moves_data(&mut queue);
            }
        });
    }
}

/// A limit that is not reached is not the cause, whatever the errno.
#[test]
fn a_limit_is_named_only_if_it_is_reached() {
    for errno in [libc::ENOMEM, libc::EMFILE] {
        forbidden((libc::SYS_io_uring_setup, None), errno, move || {
            let folder = folder();
            let engine = Engine::IoUring;
            let options = FileOptions { engine, ..Default::default() };
            let error = queue(&folder.path().join("file"), options).unwrap_err();
            assert!(error.contains("a seccomp filter is in force"), "{error}");
            assert!(!error.contains("ulimit"), "{error}");
        });
    }
}

#[test]
fn without_ring_messages_an_event_wakes() {
    // From linux/io_uring.h. A kernel before 6.13 returns this for an unknown operation.
    const IORING_REGISTER_SEND_MSG_RING: u64 = 31;
    let call = (libc::SYS_io_uring_register, Some(IORING_REGISTER_SEND_MSG_RING));
    forbidden(call, libc::EINVAL, || {
        let folder = folder();
        let engine = Engine::IoUring;
        let path = folder.path().join("file");
        let mut queue = match queue(&path, FileOptions { engine, ..Default::default() }) {
            Ok(queue) => queue,
            Err(error) => return skip(Lack::IoUring, error),
        };
        let how = queue.describe();
        assert!(how.contains("woken by eventfd"), "{how}");
        assert!(how.contains("(refused: ring messages: Invalid argument"), "{how}");
        moves_data(&mut queue);
        // Another thread's message ends a sleep.
        let (remote, (tell, told)) = (queue.remote(), std::sync::mpsc::channel());
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            let read = || remote.send(Request::read(0, Buffer::aligned(PAGE_BYTES)));
            tell.send(read()).unwrap();
            // Rings once more, now that the future is set.
            drop(read());
        });
        let read = queue.block_on(std::future::poll_fn(|_| match told.try_recv() {
            Ok(read) => Poll::Ready(read),
            Err(_) => Poll::Pending,
        }));
        sender.join().unwrap();
        assert_eq!(queue.block_on(read).result.unwrap(), PAGE_BYTES);
    });
}

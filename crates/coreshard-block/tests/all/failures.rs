//! Files that fail in places: a full disk, a disk with unwritable parts, a truncated file. Each failure
//! concerns its own request only, and all data of successful writes is on the medium.
#![expect(clippy::print_stderr, reason = "a test that skips a part reports it")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use coreshard_block::{
    Buffer, Completed, Engine, ErrorClass, Executor, File, FileOptions, HostAdapter, HostOptions,
    Job, PAGE_BYTES, Queue, QueueOptions, Request,
};
use coreshard_platform::Host;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use testing::{Lack, NEVER, skip, within};

/// Two pages, so that the first one may find room and the second one none.
const REQUEST_BYTES: usize = 2 * PAGE_BYTES;
const REQUESTS: u64 = 64;
const FILE_BYTES: u64 = REQUESTS * REQUEST_BYTES as u64;
const IN_FLIGHT: usize = 8;
/// Tells this executable that it runs in a namespace, and the path of its small disk.
const SMALL_DISK: &str = "CORESHARD_FAILURES_DISK";

/// Opens a queue to a file that consists of holes.
fn queue(path: &Path, engine: Engine) -> Result<Queue<Host>, String> {
    std::fs::File::create(path).unwrap().set_len(FILE_BYTES).unwrap();
    let executor: Arc<dyn Executor> = Arc::new(|job: Job| {
        std::thread::spawn(job);
        Ok(())
    });
    let options =
        FileOptions { write: true, engine, executor: Some(executor), ..Default::default() };
    let file = File::open(path, options).unwrap();
    let host = HostAdapter::<Host>::new(HostOptions::default()).unwrap();
    let device = host.target("t").device(Arc::new(file)).unwrap();
    device.queue(0, QueueOptions::default()).map_err(|error| error.to_string())
}

/// Writes the whole file, several requests at a time. Returns the requests that could not be written; each
/// must fail with `errno`.
fn write_all(queue: &mut Queue<Host>, errno: i32) -> BTreeSet<u64> {
    let mut failed = BTreeSet::new();
    let mut take = |completed: Completed| {
        let (number, payload) = (completed.cookie, completed.payload.into_one().unwrap());
        assert_eq!(completed.offset, number * REQUEST_BYTES as u64);
        assert!(
            payload.iter().all(|byte| *byte == pattern(number)),
            "the buffer came back as it was"
        );
        match completed.result {
            Ok(bytes) => assert_eq!(bytes, REQUEST_BYTES),
            Err(error) => {
                assert_eq!(error.errno(), errno, "request {number}: {error}");
                assert!(error.transferred() < REQUEST_BYTES);
                failed.insert(number);
            }
        }
    };
    for number in 0..REQUESTS {
        while queue.outstanding() >= IN_FLIGHT {
            take(queue.wait_for_one().expect("requests are outstanding"));
        }
        let mut buffer = Buffer::aligned(REQUEST_BYTES);
        buffer.fill(pattern(number));
        queue.submit(Request::write(number * REQUEST_BYTES as u64, buffer), number).unwrap();
    }
    while let Some(completed) = queue.wait_for_one() {
        take(completed);
    }
    failed
}

/// Reads all data whose write succeeded, after a flush.
fn verify(queue: &mut Queue<Host>, failed: &BTreeSet<u64>, how: &str) {
    let synced = queue.send(Request::fsync());
    queue.block_on(synced).result.unwrap();
    for number in (0..REQUESTS).filter(|number| !failed.contains(number)) {
        let read = Request::read(number * REQUEST_BYTES as u64, Buffer::aligned(REQUEST_BYTES));
        let read = queue.send(read);
        let read = queue.block_on(read);
        assert_eq!(read.result.unwrap(), REQUEST_BYTES, "{how}");
        let bytes = read.payload.into_one().unwrap();
        assert!(
            bytes.iter().all(|byte| *byte == pattern(number)),
            "{how}: request {number} is lost"
        );
    }
    let counts = queue.device().counts();
    assert_eq!(
        (counts.issued, counts.errors),
        (counts.done, failed.len() as u64),
        "{how}: {counts:?}"
    );
}

fn pattern(number: u64) -> u8 {
    number as u8 + 1
}

/// From now on writes at `offset` and beyond fail with `errno`, for this thread and the threads that it
/// starts.
fn fail_from(offset: u64, errno: i32) -> Result<(), Box<dyn std::error::Error>> {
    let beyond = SeccompCondition::new(3, SeccompCmpArgLen::Qword, SeccompCmpOp::Ge, offset)?;
    let rules = [(libc::SYS_pwrite64, vec![SeccompRule::new(vec![beyond])?])].into_iter().collect();
    let answer = SeccompAction::Errno(errno as u32);
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?;
    Ok(seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?)
}

#[test]
fn a_place_that_cannot_be_written_fails_its_own_requests_alone() {
    let good = REQUESTS / 2;
    for (errno, class) in [(libc::ENOSPC, ErrorClass::Invalid), (libc::EIO, ErrorClass::Media)] {
        for engine in [Engine::Sync, Engine::Threads] {
            assert_eq!(ErrorClass::of_errno(errno), class);
            let body = move || {
                let folder = tempfile::tempdir().unwrap();
                if let Err(error) = fail_from(good * REQUEST_BYTES as u64, errno) {
                    return skip(Lack::Seccomp, error);
                }
                let mut queue = queue(&folder.path().join("file"), engine).unwrap();
                let failed = write_all(&mut queue, errno);
                assert_eq!(failed, (good..REQUESTS).collect());
                let how = queue.describe();
                verify(&mut queue, &failed, &how);
            };
            within(NEVER, body);
        }
    }
}

/// Not a test by itself: this part runs on a small disk.
#[test]
fn fills_its_disk() {
    let Some(disk) = std::env::var_os(SMALL_DISK) else { return };
    for engine in [Engine::IoUring, Engine::Threads, Engine::Sync] {
        let path = Path::new(&disk).join("file");
        let mut queue = match queue(&path, engine) {
            Ok(queue) => queue,
            Err(error) => {
                skip(Lack::IoUring, error);
                continue;
            }
        };
        let how = queue.describe();
        let failed = write_all(&mut queue, libc::ENOSPC);
        assert!(!failed.is_empty() && failed.len() < REQUESTS as usize, "{how}: {failed:?}");
        verify(&mut queue, &failed, &how);
        // The next run truncates the file instead of removing it: a finished job may hold it open a moment
        // longer, and with it its space.
    }
}

#[test]
fn a_full_disk_fails_what_finds_no_room_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o size={} none \"$0\" && exec \"$@\"", FILE_BYTES / 2);
    let ran = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "failures::fills_its_disk", "--nocapture"])
        .env(SMALL_DISK, folder.path())
        .output();
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => return skip(Lack::Mount, format!("unshare: {error}")),
    };
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if !out.contains("running 1 test") {
        return skip(Lack::Mount, format!("no file system can be mounted: {err}"));
    }
    assert!(ran.status.success(), "{out}{err}");
    // The parts that were skipped there.
    eprint!("{err}");
}

/// Reads beyond a file's new end return no data and no error; the data before it stays.
#[test]
fn a_file_that_becomes_shorter_is_read_as_far_as_it_goes() {
    for engine in [Engine::Auto, Engine::IoUring, Engine::Threads, Engine::Sync] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("file");
        let mut queue = match queue(&path, engine) {
            Ok(queue) => queue,
            Err(error) => {
                skip(Lack::IoUring, error);
                continue;
            }
        };
        let how = queue.describe();
        assert!(write_all(&mut queue, 0).is_empty(), "{how}");
        let left = FILE_BYTES / 2 + 100;
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
        for number in 0..REQUESTS {
            let offset = number * REQUEST_BYTES as u64;
            let read = queue.send(Request::read(offset, Buffer::aligned(REQUEST_BYTES)));
            let read = queue.block_on(read);
            let there = left.saturating_sub(offset).min(REQUEST_BYTES as u64) as usize;
            assert_eq!(read.result.unwrap(), there, "{how}: request {number}");
            let bytes = read.payload.into_one().unwrap();
            assert!(bytes[..there].iter().all(|byte| *byte == pattern(number)), "{how}");
        }
    }
}

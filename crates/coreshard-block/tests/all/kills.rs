//! A writing process is killed at a random moment. All writes that it reported as done are in the file, and
//! after unfinished writes each block is old or new.
//!
//! The writer is this test's executable, started again. It reports each request through a pipe before it
//! submits it, and again after completion. The parent kills it, reads the pipe to its end, and compares the
//! file with the reports. Each sector contains the number of the request that wrote it.
//!
//! A block may be a mixture only if a write to it was reported as failed, or if the device tears writes (the
//! variant with faults, which does a part of a write and then the rest). A kill does not affect the page
//! cache. Power loss is outside this test; `Request::fsync` protects against it.
//!
//! 12 kills; 96 if `CORESHARD_NIGHTLY` is set.
#![expect(clippy::print_stderr, reason = "a test that skips a part reports it")]

use std::collections::HashMap;
use std::fs::{self, File as StdFile, OpenOptions};
use std::io::{BufRead, BufReader, Write, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use coreshard_block::{
    Backend, Buffer, Engine, Executor, FaultPlan, Faulty, File, FileOptions, HostAdapter,
    HostOptions, Job, Queue, QueueOptions, Request,
};
use coreshard_platform::Host;
use testing::{Lack, skip};

const SECTOR_BYTES: usize = 512;
/// The unit that a kill leaves whole: a page, which the kernel fills at once.
const BLOCK_BYTES: usize = 4096;
const SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;
const BLOCKS: usize = 64;
const IN_FLIGHT: usize = 16;
const MAX_BLOCKS: usize = 4;
/// The most records that a writer reports before it is killed.
const MAX_RECORDS: u64 = 1500;
/// The environment variable with the writer's orders.
const ORDER: &str = "CORESHARD_KILLS_WRITE";

/// Ways of writing to a file.
#[derive(Clone, Copy, Debug)]
enum Way {
    Ring,
    RingDirect,
    RingFaulty,
    Threads,
    Sync,
}

const WAYS: [Way; 5] = [Way::Ring, Way::Threads, Way::RingDirect, Way::Sync, Way::RingFaulty];

fn kills() -> usize {
    if std::env::var_os("CORESHARD_NIGHTLY").is_some() { 96 } else { 12 }
}

/// The content that the request `version` writes into a sector.
fn sector(version: u64, number: usize) -> [u8; SECTOR_BYTES] {
    let mut dice = fastrand::Rng::with_seed(version << 16 | number as u64);
    let mut bytes = [0; SECTOR_BYTES];
    dice.fill(&mut bytes);
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Returns the request that wrote a sector; `None` if none did.
fn version_of(bytes: &[u8], number: usize) -> Option<u64> {
    let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    (bytes == sector(version, number)).then_some(version)
}

fn fill(bytes: &mut [u8], version: u64, first_block: usize) {
    for (at, part) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        part.copy_from_slice(&sector(version, first_block * SECTORS + at));
    }
}

// The writer.

/// Not a test by itself: the process that the parent starts and kills.
#[test]
fn writes_until_it_is_killed() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let mut words = order.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<u64>().unwrap();
    let (way, first_version) = (WAYS[number() as usize], number());
    // A record is one system call, so it is reported as a whole or not at all.
    let mut pipe = StdFile::from(stdout().as_fd().try_clone_to_owned().unwrap());
    // The test harness has left its line unfinished.
    pipe.write_all(b"\n").unwrap();
    match queue(way, Path::new(words.next().unwrap()), first_version) {
        Ok(queue) => write(queue, first_version, pipe),
        Err(why) => pipe.write_all(format!("without {why}\n").as_bytes()).unwrap(),
    }
}

fn queue(way: Way, path: &Path, seed: u64) -> Result<Queue<Host>, String> {
    let executor: Arc<dyn Executor> = Arc::new(|job: Job| {
        std::thread::spawn(job);
        Ok(())
    });
    let engine = match way {
        Way::Ring | Way::RingDirect | Way::RingFaulty => Engine::IoUring,
        Way::Threads => Engine::Threads,
        Way::Sync => Engine::Sync,
    };
    let options = FileOptions {
        write: true,
        direct: matches!(way, Way::RingDirect),
        engine,
        executor: Some(executor),
        ..FileOptions::default()
    };
    let mut backend: Arc<dyn Backend<Host>> =
        Arc::new(File::open(path, options).map_err(|error| error.to_string())?);
    if matches!(way, Way::RingFaulty) {
        let plan = FaultPlan {
            seed,
            transient: 20_000,
            media: 50_000,
            short: 50_000,
            torn: 50_000,
            reordered: 50_000,
            ..FaultPlan::default()
        };
        backend = Arc::new(Faulty::new(backend, plan));
    }
    let host =
        HostAdapter::<Host>::new(HostOptions::default()).map_err(|error| error.to_string())?;
    let device = host.target("t").device(backend).map_err(|error| error.to_string())?;
    device.queue(0, QueueOptions::default()).map_err(|error| error.to_string())
}

fn write(mut queue: Queue<Host>, first_version: u64, mut pipe: StdFile) {
    let mut tell = |record: String| pipe.write_all(record.as_bytes()).unwrap();
    let mut dice = fastrand::Rng::with_seed(first_version);
    let mut busy = [false; BLOCKS];
    let mut begun: HashMap<u64, (usize, usize)> = HashMap::new();
    for version in first_version.. {
        while queue.outstanding() >= IN_FLIGHT {
            queue.wait(None);
            while let Some(completed) = queue.next() {
                let what = if completed.result.is_ok() { "done" } else { "failed" };
                tell(format!("{what} {}\n", completed.cookie));
                let (block, count) = begun.remove(&completed.cookie).unwrap();
                busy[block..block + count].fill(false);
            }
        }
        let (block, count) = (dice.usize(..BLOCKS), dice.usize(1..=MAX_BLOCKS));
        let count = count.min(BLOCKS - block);
        // Two concurrent writes to a block could end in either order.
        let (request, count) = if dice.u8(..16) == 0 || busy[block..block + count].contains(&true) {
            (if dice.bool() { Request::fsync() } else { Request::fsync_data() }, 0)
        } else {
            let mut buffer = Buffer::aligned(count * BLOCK_BYTES);
            fill(&mut buffer, version, block);
            (Request::write((block * BLOCK_BYTES) as u64, buffer), count)
        };
        busy[block..block + count].fill(true);
        begun.insert(version, (block, count));
        tell(format!("begun {version} {block} {count}\n"));
        queue.submit(request, version).unwrap();
    }
}

// The parent.

/// A writer, killed at the latest when it is dropped.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The possible contents of a block.
#[derive(Clone, Debug, Default)]
struct Block {
    /// The last request that was reported as done.
    settled: u64,
    /// Later requests that were begun, and whether they may have left a part of their data.
    open: Vec<(u64, bool)>,
}

/// The reports of the writers of one file.
#[derive(Debug)]
struct Ledger {
    /// Whether a write is done in parts of less than a block.
    tears: bool,
    blocks: Vec<Block>,
    begun: HashMap<u64, (usize, usize)>,
    last_version: u64,
    done: u64,
    failed: u64,
    unfinished: usize,
}

impl Ledger {
    fn new(tears: bool) -> Self {
        Self {
            tears,
            blocks: vec![Block::default(); BLOCKS],
            begun: HashMap::new(),
            last_version: 0,
            done: 0,
            failed: 0,
            unfinished: 0,
        }
    }

    /// Takes a record. Returns false if the line is not a record.
    fn take(&mut self, record: &str) -> bool {
        let mut words = record.split(' ');
        let what = words.next().unwrap_or_default();
        let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        match (what, numbers.as_deref()) {
            ("begun", Some(&[version, block, count])) => {
                let (block, count) = (block as usize, count as usize);
                self.begun.insert(version, (block, count));
                self.last_version = version;
                for block in &mut self.blocks[block..block + count] {
                    block.open.push((version, self.tears));
                }
            }
            ("done", Some(&[version])) => {
                let (block, count) = self.begun.remove(&version).expect("it was begun");
                for block in &mut self.blocks[block..block + count] {
                    *block = Block { settled: version, open: Vec::new() };
                }
                self.done += 1;
            }
            ("failed", Some(&[version])) => {
                let (block, count) = self.begun.remove(&version).expect("it was begun");
                for block in &mut self.blocks[block..block + count] {
                    block
                        .open
                        .iter_mut()
                        .filter(|open| open.0 == version)
                        .for_each(|open| open.1 = true);
                }
                self.failed += 1;
            }
            _ => return false,
        }
        true
    }

    /// Compares the file with the reports. Afterwards its content is known.
    fn verify(&mut self, path: &Path, how: &str) {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut bytes = vec![0; BLOCK_BYTES];
        for (number, block) in self.blocks.iter_mut().enumerate() {
            let offset = (number * BLOCK_BYTES) as u64;
            file.read_exact_at(&mut bytes, offset).unwrap();
            let versions: Vec<Option<u64>> = bytes
                .chunks(SECTOR_BYTES)
                .enumerate()
                .map(|(at, sector)| version_of(sector, number * SECTORS + at))
                .collect();
            let is_known = |version: u64| {
                version == block.settled || block.open.iter().any(|open| open.0 == version)
            };
            assert!(
                versions.iter().all(|version| version.is_some_and(is_known)),
                "{how}: block {number} is {versions:?}, but {block:?} was reported"
            );
            let is_whole = versions.iter().all(|version| *version == versions[0]);
            let may_be_torn = block.open.iter().any(|open| open.1);
            assert!(
                is_whole || may_be_torn,
                "{how}: block {number} is torn: {versions:?}, {block:?}"
            );
            if !is_whole {
                fill(&mut bytes, block.settled, number);
                file.write_all_at(&bytes, offset).unwrap();
            }
            let settled = if is_whole { versions[0].unwrap() } else { block.settled };
            *block = Block { settled, open: Vec::new() };
        }
        self.unfinished += self.begun.drain().count();
    }
}

/// Starts a writer and kills it. Returns false if this way of writing is unavailable here.
fn kill_one(way: usize, path: &Path, ledger: &mut Ledger, dice: &mut fastrand::Rng) -> bool {
    let order = format!("{way} {} {}", ledger.last_version + 1, path.display());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::writes_until_it_is_killed", "--nocapture"])
        .env(ORDER, order)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut writer = Writer(child);
    let mut pipe = BufReader::new(writer.0.stdout.take().unwrap());
    // Usually during its work; otherwise while it starts.
    let mut left = if dice.u8(..8) > 0 { dice.u64(..MAX_RECORDS) } else { 0 };
    if left == 0 {
        std::thread::sleep(Duration::from_micros(dice.u64(..8_000)));
        writer.0.kill().unwrap();
    }
    let mut line = Vec::new();
    // A record without its end was not fully reported, so it is not counted.
    while pipe.read_until(b'\n', &mut line).unwrap() > 0 && line.last() == Some(&b'\n') {
        let record = String::from_utf8_lossy(&line).trim_end().to_owned();
        line.clear();
        if let Some(why) = record.strip_prefix("without ") {
            skip(Lack::IoUring, format!("{:?}: {why}", WAYS[way]));
            return false;
        }
        if ledger.take(&record) && left > 0 {
            left -= 1;
            if left == 0 {
                writer.0.kill().unwrap();
            }
        }
    }
    let status = writer.0.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{:?}: the writer ended by itself", WAYS[way]);
    true
}

#[test]
fn what_was_told_to_be_written_is_there_after_a_kill() {
    let mut dice = fastrand::Rng::with_seed(kills() as u64);
    // In the build folder, and not in memory: direct I/O needs a disk.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut ledgers: Vec<Option<Ledger>> = Vec::new();
    for (number, way) in WAYS.iter().enumerate() {
        let mut bytes = vec![0; BLOCKS * BLOCK_BYTES];
        fill(&mut bytes, 0, 0);
        fs::write(folder.path().join(number.to_string()), bytes).unwrap();
        ledgers.push(Some(Ledger::new(matches!(way, Way::RingFaulty))));
    }
    for kill in 0..kills() {
        let way = kill % WAYS.len();
        let Some(ledger) = &mut ledgers[way] else { continue };
        let path = folder.path().join(way.to_string());
        let how = format!("{:?}, kill {kill}", WAYS[way]);
        if kill_one(way, &path, ledger, &mut dice) {
            ledger.verify(&path, &how);
        } else {
            ledgers[way] = None;
        }
    }
    let mut sums = (0, 0);
    for (way, ledger) in WAYS.iter().zip(&ledgers) {
        let Some(Ledger { done, failed, unfinished, .. }) = ledger else { continue };
        eprintln!("{way:?}: {done} requests done, {failed} failed, {unfinished} cut off");
        sums = (sums.0 + done, sums.1 + unfinished);
    }
    assert!(sums.0 > 0 && sums.1 > 0, "no writer was killed during its work: {sums:?}");
}

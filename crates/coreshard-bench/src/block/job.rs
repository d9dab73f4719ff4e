//! What a job is to do, in fio's own words.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use coreshard_block::{CounterLayout, DeviceMemory, TagPolicy};
use coreshard_topology::{
    CpuSet,
    input::{self, quoted},
};

use super::amount::Amount;

/// What a job reads and writes, as fio's `rw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// `read`: one block after another.
    #[default]
    Read,
    /// `write`: one block after another.
    Write,
    /// `rw`: one block after another, read or written by the dice.
    Mixed,
    /// `randread`: blocks by the dice.
    RandRead,
    /// `randwrite`: blocks by the dice.
    RandWrite,
    /// `randrw`: blocks by the dice, read or written by the dice.
    RandMixed,
}

impl Pattern {
    const NAMES: [(&'static str, Self); 8] = [
        ("read", Self::Read),
        ("write", Self::Write),
        ("rw", Self::Mixed),
        ("readwrite", Self::Mixed),
        ("randread", Self::RandRead),
        ("randwrite", Self::RandWrite),
        ("randrw", Self::RandMixed),
        ("randreadwrite", Self::RandMixed),
    ];

    /// Whether it writes.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }

    /// Whether the dice say where.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandMixed)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().find(|(_, pattern)| pattern == self);
        f.pad(named.expect("every pattern has a name").0)
    }
}

/// How a job's requests are done, as fio's `ioengine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoEngine {
    /// `auto`: io_uring where it can be had, else other threads.
    #[default]
    Auto,
    /// `libaio`: as `auto`, which takes the place of that older interface.
    Libaio,
    /// `io_uring`.
    IoUring,
    /// `psync`: system calls on the job's own thread.
    Sync,
    /// `threads`: system calls on a workqueue.
    Threads,
    /// `null`: nothing is done.
    Null,
    /// `memory`: a device in memory.
    Memory,
}

impl IoEngine {
    const NAMES: [(&'static str, Self); 8] = [
        ("auto", Self::Auto),
        ("libaio", Self::Libaio),
        ("io_uring", Self::IoUring),
        ("psync", Self::Sync),
        ("sync", Self::Sync),
        ("threads", Self::Threads),
        ("null", Self::Null),
        ("memory", Self::Memory),
    ];

    /// Whether it needs a file.
    pub fn has_file(self) -> bool {
        !matches!(self, Self::Null | Self::Memory)
    }
}

impl fmt::Display for IoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMES.iter().find(|(_, engine)| engine == self);
        f.pad(named.expect("every engine has a name").0)
    }
}

/// A job: `numjobs` threads that read and write a file.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockJob {
    /// `name`.
    pub name: String,
    /// `filename`.
    pub filename: Option<PathBuf>,
    /// `rw`.
    pub rw: Pattern,
    /// `rwmixread`: per cent of reads where both are made.
    pub rwmixread: u8,
    /// `bs`: bytes of a request.
    pub bs: u32,
    /// `bssplit`: sizes of requests, and how many per cent have each, in place of `bs`; none where empty. Ascending
    /// multiples of the first.
    pub bssplit: Vec<(u32, u8)>,
    /// `size`: how much of the file is used, from `offset` on; all where `None`.
    pub size: Option<Amount>,
    /// `offset`: where in the file that begins.
    pub offset: Amount,
    /// `io_size`: how much each thread transfers before it is done; as much as `size` where `None`.
    pub io_size: Option<Amount>,
    /// `loops`: how often each thread does that.
    pub loops: u32,
    /// `iodepth`: requests in flight, each thread.
    pub iodepth: u32,
    /// `numjobs`: threads.
    pub numjobs: u32,
    /// `runtime`: the longest that it runs.
    pub runtime: Option<Duration>,
    /// `time_based`: it runs that long, however much it transfers.
    pub time_based: bool,
    /// `ramp_time`: how long it runs before it is measured, and before `runtime` begins.
    pub ramp_time: Duration,
    /// `number_ios`: requests of each thread in each of its `loops`, at most.
    pub number_ios: Option<u64>,
    /// `rate_iops`: requests a second of each thread, at most: reads, and writes.
    pub rate_iops: Option<[u32; 2]>,
    /// `norandommap`: blocks by the dice, some of them several times before others come once.
    pub norandommap: bool,
    /// `direct`: past the page cache.
    pub direct: bool,
    /// `ioengine`.
    pub ioengine: IoEngine,
    /// `verify=pattern`: what was written is read back and compared.
    pub verify: bool,
    /// `fixedbufs`: registered buffers, where the engine has them.
    pub fixedbufs: bool,
    /// `sqthread_poll`: a kernel thread takes submissions.
    pub sqthread_poll: bool,
    /// `hipri`: completions are polled for.
    pub hipri: bool,
    /// `randseed`: where the dice begin; 0 where `None`.
    pub randseed: Option<u64>,
    /// `randrepeat`: without a `randseed`, the dice begin there in each run.
    pub randrepeat: bool,
    /// `cpus_allowed`: the CPUs that threads are pinned to, each to one, in turn.
    pub cpus_allowed: Option<CpuSet>,
    /// `tags`: how the host's tags are accounted.
    pub tags: TagPolicy,
    /// `tag_depth`: how many there are; all that the threads can use where `None`.
    pub tag_depth: Option<u32>,
    /// `counters`: how the device's counters lie.
    pub counters: CounterLayout,
    /// `memory`: where state lies.
    pub memory: DeviceMemory,
    /// `allow_overwrite`: what the file or device holds may be lost, though this benchmark did not make
    /// it.
    pub allow_overwrite: bool,
    /// `allow_mounted_write`: it may be written though it is mounted, or in use otherwise.
    pub allow_mounted_write: bool,
}

impl Default for BlockJob {
    fn default() -> Self {
        Self {
            name: "block".to_owned(),
            filename: None,
            rw: Pattern::default(),
            rwmixread: 50,
            bs: 4096,
            bssplit: Vec::new(),
            size: None,
            offset: Amount::Bytes(0),
            io_size: None,
            loops: 1,
            iodepth: 1,
            numjobs: 1,
            runtime: None,
            time_based: false,
            ramp_time: Duration::ZERO,
            number_ios: None,
            rate_iops: None,
            norandommap: false,
            direct: false,
            ioengine: IoEngine::default(),
            verify: false,
            fixedbufs: false,
            sqthread_poll: false,
            hipri: false,
            randseed: None,
            randrepeat: true,
            cpus_allowed: None,
            tags: TagPolicy::default(),
            tag_depth: None,
            counters: CounterLayout::default(),
            memory: DeviceMemory::default(),
            allow_overwrite: false,
            allow_mounted_write: false,
        }
    }
}

/// The words that [`BlockJob::set`] knows.
pub const JOB_KEYS: &[&str] = &[
    "name",
    "filename",
    "rw",
    "readwrite",
    "rwmixread",
    "bs",
    "blocksize",
    "bssplit",
    "size",
    "offset",
    "io_size",
    "io_limit",
    "loops",
    "iodepth",
    "numjobs",
    "runtime",
    "time_based",
    "ramp_time",
    "number_ios",
    "rate_iops",
    "norandommap",
    "direct",
    "ioengine",
    "verify",
    "fixedbufs",
    "sqthread_poll",
    "hipri",
    "randseed",
    "randrepeat",
    "cpus_allowed",
    "tags",
    "tag_depth",
    "counters",
    "memory",
    "allow_overwrite",
    "allow_mounted_write",
    // What this benchmark does in any case, so that job files need not be changed.
    "thread",
    "group_reporting",
    "registerfiles",
    "stonewall",
    "cpus_allowed_policy",
];

impl BlockJob {
    /// Sets one word, as in a job file's `key=value`, or `key` alone (`value` is then empty).
    ///
    /// # Errors
    /// What is wrong with the value, or that there is no such key, as half a sentence.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "name" => self.name = value.to_owned(),
            "filename" => self.filename = Some(one_file(given(value)?)?),
            "rw" | "readwrite" => self.rw = named(&Pattern::NAMES, value)?,
            "rwmixread" => self.rwmixread = number(value, 0, 100)? as u8,
            "bs" | "blocksize" => self.bs = bytes_between(value, 1, 1 << 30)? as u32,
            "bssplit" => self.bssplit = split(value)?,
            "size" => self.size = Some(amount(value, 1)?),
            "offset" => self.offset = amount(value, 0)?,
            "io_size" | "io_limit" => self.io_size = Some(amount(value, 1)?),
            "loops" => self.loops = number(value, 1, u64::from(u32::MAX))? as u32,
            "iodepth" => self.iodepth = number(value, 1, 65_536)? as u32,
            "numjobs" => self.numjobs = number(value, 1, 4_096)? as u32,
            "runtime" => self.runtime = Some(duration(value)?),
            "time_based" => self.time_based = switch(value)?,
            "ramp_time" => self.ramp_time = duration(value)?,
            "rate_iops" => self.rate_iops = Some(rates(value)?),
            "norandommap" => self.norandommap = switch(value)?,
            "number_ios" => self.number_ios = Some(number(value, 1, u64::MAX)?),
            "direct" => self.direct = switch(value)?,
            "ioengine" => self.ioengine = named(&IoEngine::NAMES, value)?,
            "verify" => {
                self.verify = named(&[("pattern", true), ("none", false), ("0", false)], value)?;
            }
            "fixedbufs" => self.fixedbufs = switch(value)?,
            "sqthread_poll" => self.sqthread_poll = switch(value)?,
            "hipri" => self.hipri = switch(value)?,
            "randseed" => self.randseed = Some(number(value, 0, u64::MAX)?),
            "randrepeat" => self.randrepeat = switch(value)?,
            "cpus_allowed" => {
                let cpus: CpuSet = value.parse().map_err(|error| format!("{error}"))?;
                if cpus.is_empty() {
                    return Err("at least one CPU is needed".to_owned());
                }
                self.cpus_allowed = Some(cpus);
            }
            "tags" => self.tags = value.parse().map_err(|error| format!("{error}"))?,
            "tag_depth" => self.tag_depth = Some(number(value, 1, 1 << 20)? as u32),
            "counters" => self.counters = value.parse().map_err(|error| format!("{error}"))?,
            "memory" => self.memory = value.parse().map_err(|error| format!("{error}"))?,
            "allow_overwrite" => self.allow_overwrite = switch(value)?,
            "allow_mounted_write" => self.allow_mounted_write = switch(value)?,
            "thread" => always(value, "jobs are threads")?,
            "group_reporting" => {
                always(value, "the threads of a job are reported together")?;
            }
            "registerfiles" => {
                always(value, "a ring's file is registered if it serves reads at once")?
            }
            "stonewall" => always(value, "jobs run one after another")?,
            "cpus_allowed_policy" => named(&[("split", ())], value)?,
            _ => return Err(format!("there is no such key; known are {}", JOB_KEYS.join(", "))),
        }
        Ok(())
    }

    /// The sizes of requests, ascending, and how many per cent have each.
    pub(super) fn split(&self) -> Vec<(u32, u8)> {
        if self.bssplit.is_empty() { vec![(self.bs, 100)] } else { self.bssplit.clone() }
    }

    /// The size of the smallest request.
    pub(super) fn smallest_bs(&self) -> u32 {
        self.bssplit.first().map_or(self.bs, |(bytes, _)| *bytes)
    }

    /// Whether it ends by time alone.
    pub(super) fn lasts(&self) -> bool {
        self.time_based && self.runtime.is_some()
    }

    /// What a reader must know of how its words are taken.
    pub(super) fn notes(&self) -> Vec<String> {
        let name = input::plain(&self.name);
        let mut notes = Vec::new();
        if self.ioengine == IoEngine::Libaio {
            notes.push(format!(
                "{name}: ioengine=libaio is done as ioengine=auto does it; the line \"engine\" says how"
            ));
        }
        if self.time_based && self.runtime.is_none() {
            notes.push(format!("{name}: time_based has no effect without runtime, as in fio"));
        }
        notes
    }

    /// Whether the words go together.
    ///
    /// # Errors
    /// Which ones do not, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.verify && !self.rw.writes() {
            return Err(format!(
                "job {}: verify=pattern reads back what the job wrote, but rw={} writes nothing; give \
                 rw=write or randwrite, or leave verify out",
                input::plain(&self.name),
                self.rw
            ));
        }
        if self.ioengine.has_file() && self.filename.is_none() {
            return Err(format!(
                "job {}: no file was named; give a filename, or ioengine null or memory",
                input::plain(&self.name)
            ));
        }
        if self.fixedbufs && self.bssplit.len() > 1 {
            return Err(format!(
                "job {}: fixedbufs registers buffers of one size, but bssplit has {}; give one bs, or \
                 fixedbufs=0",
                input::plain(&self.name),
                self.bssplit.len()
            ));
        }
        Ok(())
    }
}

/// A switch that is on in any case.
fn always(value: &str, why: &str) -> Result<(), String> {
    if switch(value)? {
        Ok(())
    } else {
        Err(format!("0 is not supported: {why}; leave the word out"))
    }
}

/// A file's name; in fio a colon parts several, and one with a backslash before it is a colon.
fn one_file(value: &str) -> Result<PathBuf, String> {
    let escaped = value.replace("\\:", "\0");
    if escaped.contains(':') {
        return Err(format!(
            "{} names several files, and a job has one; give one file, and write \\: for a colon in its name",
            quoted(value)
        ));
    }
    Ok(PathBuf::from(escaped.replace('\0', ":")))
}

/// Bytes, or per cent.
fn amount(value: &str, least: u64) -> Result<Amount, String> {
    match value.strip_suffix('%') {
        None => bytes_between(value, least, 1 << 62).map(Amount::Bytes),
        Some(percent) => number(percent, least, 100)
            .map(|percent| Amount::Percent(percent as u8))
            .map_err(|_| format!("{} is no percentage from {least}% to 100%", quoted(value))),
    }
}

/// `4k/60:64k/40`; sizes without a percentage share what the others leave.
fn split(value: &str) -> Result<Vec<(u32, u8)>, String> {
    let wanted = |what: &str| {
        format!(
            "{} {what}; give sizes with their percentages, such as 4k/60:64k/40, of which the larger are \
             multiples of the smallest",
            quoted(value)
        )
    };
    if value.contains(',') {
        return Err(wanted(
            "has different sizes for reads and for writes, which a job cannot have",
        ));
    }
    let mut parts = Vec::new();
    for part in value.split(':') {
        let (bytes, percent) = part.split_once('/').unwrap_or((part, ""));
        let bytes = bytes_between(bytes, 1, 1 << 30)? as u32;
        let percent = if percent.is_empty() { None } else { Some(number(percent, 1, 100)?) };
        parts.push((bytes, percent));
    }
    let given: u64 = parts.iter().filter_map(|(_, percent)| *percent).sum();
    let open = parts.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
    let left = 100_u64.checked_sub(given).filter(|left| *left >= open && (open > 0 || *left == 0));
    let left = left.ok_or_else(|| wanted("has percentages that do not add up to 100"))?;
    let mut number = 0;
    let mut split: Vec<(u32, u8)> = Vec::new();
    parts.sort_unstable();
    for (bytes, percent) in parts {
        let percent = percent.unwrap_or_else(|| {
            number += 1;
            left * number / open - left * (number - 1) / open
        }) as u8;
        match split.last_mut() {
            Some(last) if last.0 == bytes => last.1 += percent,
            _ => split.push((bytes, percent)),
        }
    }
    if split.iter().any(|(bytes, _)| bytes % split[0].0 != 0) {
        return Err(wanted("has sizes that do not fit one another"));
    }
    Ok(split)
}

/// `1000`, or `1000,500` for reads and writes.
fn rates(value: &str) -> Result<[u32; 2], String> {
    let (reads, writes) = value.split_once(',').unwrap_or((value, value));
    let rate = |text: &str| number(text, 1, 1_000_000_000).map(|rate| rate as u32);
    Ok([rate(reads)?, rate(writes)?])
}

fn given(value: &str) -> Result<&str, String> {
    if value.is_empty() { Err("a value is needed".to_owned()) } else { Ok(value) }
}

fn named<T: Copy>(names: &[(&str, T)], value: &str) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == value).map(|(_, named)| *named);
    found.ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!("{} is none of {}", quoted(value), names.join(", "))
    })
}

fn switch(value: &str) -> Result<bool, String> {
    // The key alone switches on, as in fio.
    named(&[("", true), ("1", true), ("0", false)], value)
}

fn number(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let wanted = || format!("{} is no whole number from {least} to {most}", quoted(value));
    value.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(wanted)
}

/// A number of bytes with fio's suffixes: k, m, g, t are powers of 1024, with or without b or ib.
fn bytes_between(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let wanted = || {
        format!(
            "{} is no number of bytes from {least} to {most}, such as 4096, 4k or 1g",
            quoted(value)
        )
    };
    let lower = value.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wanted()),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|bytes| (least..=most).contains(bytes))
        .ok_or_else(wanted)
}

/// A time with fio's suffixes; seconds where there is none.
fn duration(value: &str) -> Result<Duration, String> {
    let wanted = || format!("{} is no time such as 10, 10s, 500ms or 2m, above 0", quoted(value));
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_ns: u64 = match &value[digits.len()..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(wanted()),
    };
    let ns = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ns));
    ns.filter(|ns| *ns > 0).map(Duration::from_nanos).ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_s_words_are_understood() {
        let mut job = BlockJob::default();
        for (key, value) in [
            ("filename", "/tmp/x"),
            ("rw", "randrw"),
            ("bs", "8k"),
            ("size", "1GiB"),
            ("iodepth", "64"),
            ("runtime", "1500ms"),
            ("direct", "1"),
            ("thread", ""),
            ("ioengine", "io_uring"),
            ("cpus_allowed", "0,2-3"),
            ("tags", "windowed:25"),
            ("verify", "pattern"),
        ] {
            job.set(key, value).unwrap();
        }
        let size = Some(Amount::Bytes(1 << 30));
        assert_eq!((job.rw, job.bs, job.size), (Pattern::RandMixed, 8192, size));
        assert_eq!(job.runtime, Some(Duration::from_millis(1500)));
        assert!(job.direct && job.verify);
        assert_eq!(job.tags, TagPolicy::Windowed { shared_pct: 25 });
        assert_eq!(
            (job.rw.to_string(), job.ioengine.to_string()),
            ("randrw".into(), "io_uring".into())
        );
    }

    #[test]
    fn values_that_make_no_sense_are_told_with_what_would() {
        let mut job = BlockJob::default();
        for (key, value, says) in [
            ("bs", "0", "4096, 4k or 1g"),
            ("bs", "4q", "4096, 4k or 1g"),
            ("size", "99999999999g", "4096, 4k or 1g"),
            ("runtime", "0", "above 0"),
            ("iodepth", "0", "from 1 to 65536"),
            ("rw", "readd", "randwrite"),
            ("ioengine", "mmap", "io_uring"),
            ("size", "101%", "from 1% to 100%"),
            ("offset", "x%", "from 0% to 100%"),
            ("io_size", "0", "4096, 4k or 1g"),
            ("loops", "0", "from 1 to"),
            ("rate_iops", "0", "from 1 to"),
            ("rate_iops", "1,2,3", "no whole number"),
            ("bssplit", "4k/50:16k/40", "do not add up to 100"),
            ("bssplit", "4k/60:16k/60", "do not add up to 100"),
            ("bssplit", "4k/100:16k", "do not add up to 100"),
            ("bssplit", "4k/50:6k/50", "do not fit one another"),
            ("bssplit", "4k/100,8k/100", "different sizes for reads"),
            ("group_reporting", "0", "reported together; leave the word out"),
            ("thread", "0", "jobs are threads"),
            ("stonewall", "0", "one after another"),
            ("registerfiles", "0", "registered"),
            ("filename", "/a:/b", "names several files"),
            ("direct", "yes", "none of"),
            ("filename", "", "a value is needed"),
            ("iodept", "1", "there is no such key"),
            ("verify", "crc32c", "pattern"),
            ("cpus_allowed", "x", "x"),
        ] {
            let error = job.set(key, value).unwrap_err();
            assert!(error.contains(says), "{key}={value}: {error}");
        }
        assert_eq!(job, BlockJob::default());
    }

    #[test]
    fn splits_are_shared_as_fio_does() {
        for (value, expected) in [
            ("4k", vec![(4096, 100)]),
            ("16k/40:4k/60", vec![(4096, 60), (16384, 40)]),
            ("4k:16k", vec![(4096, 50), (16384, 50)]),
            ("8k/20:16k/:32k/", vec![(8192, 20), (16384, 40), (32768, 40)]),
            ("4k/33:8k:4k", vec![(4096, 66), (8192, 34)]),
        ] {
            assert_eq!(split(value), Ok(expected), "{value}");
        }
        assert_eq!(rates("10,20"), Ok([10, 20]));
        assert_eq!(one_file("/a\\:b"), Ok("/a:b".into()));
    }

    #[test]
    fn every_listed_key_is_known() {
        for key in JOB_KEYS {
            let error = BlockJob::default().set(key, "?").err().unwrap_or_default();
            assert!(!error.contains("no such key"), "{key}");
        }
    }
}

//! What a job is to do, in fio's own words.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use coreshard_block::{CounterLayout, DeviceMemory, TagPolicy};
use coreshard_topology::{
    CpuSet,
    input::{self, quoted},
};

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
    const NAMES: [(&'static str, Self); 7] = [
        ("auto", Self::Auto),
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
    /// `size`: bytes of the file that are used, from its start; all where `None`.
    pub size: Option<u64>,
    /// `iodepth`: requests in flight, each thread.
    pub iodepth: u32,
    /// `numjobs`: threads.
    pub numjobs: u32,
    /// `runtime`.
    pub runtime: Option<Duration>,
    /// `number_ios`: requests, each thread.
    pub number_ios: Option<u64>,
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
    /// `randseed`: where the dice begin.
    pub randseed: u64,
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
            size: None,
            iodepth: 1,
            numjobs: 1,
            runtime: None,
            number_ios: None,
            direct: false,
            ioengine: IoEngine::default(),
            verify: false,
            fixedbufs: false,
            sqthread_poll: false,
            hipri: false,
            randseed: 0,
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
    "size",
    "iodepth",
    "numjobs",
    "runtime",
    "number_ios",
    "direct",
    "ioengine",
    "verify",
    "fixedbufs",
    "sqthread_poll",
    "hipri",
    "randseed",
    "cpus_allowed",
    "tags",
    "tag_depth",
    "counters",
    "memory",
    "allow_overwrite",
    "allow_mounted_write",
    // What this benchmark does in any case, so that job files need not be changed.
    "time_based",
    "thread",
    "group_reporting",
    "norandommap",
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
            "filename" => self.filename = Some(PathBuf::from(given(value)?)),
            "rw" | "readwrite" => self.rw = named(&Pattern::NAMES, value)?,
            "rwmixread" => self.rwmixread = number(value, 0, 100)? as u8,
            "bs" | "blocksize" => self.bs = bytes_between(value, 1, 1 << 30)? as u32,
            "size" => self.size = Some(bytes_between(value, 1, 1 << 62)?),
            "iodepth" => self.iodepth = number(value, 1, 65_536)? as u32,
            "numjobs" => self.numjobs = number(value, 1, 4_096)? as u32,
            "runtime" => self.runtime = Some(duration(value)?),
            "number_ios" => self.number_ios = Some(number(value, 1, u64::MAX)?),
            "direct" => self.direct = switch(value)?,
            "ioengine" => self.ioengine = named(&IoEngine::NAMES, value)?,
            "verify" => {
                self.verify = named(&[("pattern", true), ("none", false), ("0", false)], value)?;
            }
            "fixedbufs" => self.fixedbufs = switch(value)?,
            "sqthread_poll" => self.sqthread_poll = switch(value)?,
            "hipri" => self.hipri = switch(value)?,
            "randseed" => self.randseed = number(value, 0, u64::MAX)?,
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
            "time_based" | "thread" | "group_reporting" | "norandommap" | "registerfiles"
            | "stonewall" => {
                switch(value)?;
            }
            "cpus_allowed_policy" => named(&[("split", ())], value)?,
            _ => return Err(format!("there is no such key; known are {}", JOB_KEYS.join(", "))),
        }
        Ok(())
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
        Ok(())
    }
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
        assert_eq!((job.rw, job.bs, job.size), (Pattern::RandMixed, 8192, Some(1 << 30)));
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
            ("ioengine", "libaio", "io_uring"),
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
    fn every_listed_key_is_known() {
        for key in JOB_KEYS {
            let error = BlockJob::default().set(key, "?").err().unwrap_or_default();
            assert!(!error.contains("no such key"), "{key}");
        }
    }
}

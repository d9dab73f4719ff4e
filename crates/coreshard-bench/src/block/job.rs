//! The description of a job, in fio's own words.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use coreshard_block::{CounterLayout, DeviceMemory, TagPolicy};
use coreshard_topology::{CpuSet, input};

use super::words::{
    Amount, always, amount, bytes_between, duration, given, name_of, named, number, one_file,
    parsed, rates, split, switch,
};

/// The access pattern of a job: fio's `rw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pattern {
    /// `read`: one block after another.
    #[default]
    Read,
    /// `write`: one block after another.
    Write,
    /// `rw`: one block after another, randomly read or written.
    Mixed,
    /// `randread`: random blocks.
    RandRead,
    /// `randwrite`: random blocks.
    RandWrite,
    /// `randrw`: random blocks, randomly read or written.
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

    /// Returns whether the pattern writes.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::RandRead)
    }

    /// Returns whether the offsets are random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandMixed)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_of(&Self::NAMES, self))
    }
}

/// How a job's requests are executed: fio's `ioengine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoEngine {
    /// `auto`: io_uring if it is available, else other threads.
    #[default]
    Auto,
    /// `libaio`: treated as `auto`, which replaces that older interface.
    Libaio,
    /// `io_uring`.
    IoUring,
    /// `psync`: system calls on the job's own thread.
    Sync,
    /// `threads`: system calls on a workqueue.
    Threads,
    /// `null`: requests complete without any work.
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

    /// Returns whether the engine needs a file.
    pub fn has_file(self) -> bool {
        !matches!(self, Self::Null | Self::Memory)
    }
}

impl fmt::Display for IoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(name_of(&Self::NAMES, self))
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
    /// `rwmixread`: the percentage of reads in mixed patterns.
    pub rwmixread: u8,
    /// `bs`: bytes of a request.
    pub bs: u32,
    /// `bssplit`: the sizes of requests and their percentages, in place of `bs`; empty if unused. Ascending
    /// multiples of the first.
    pub bssplit: Vec<(u32, u8)>,
    /// `size`: the used bytes of the file, from `offset` on; all if `None`.
    pub size: Option<Amount>,
    /// `offset`: where the used part begins.
    pub offset: Amount,
    /// `io_size`: the bytes that each thread transfers before it finishes; `size` if `None`.
    pub io_size: Option<Amount>,
    /// `loops`: how often each thread does that.
    pub loops: u32,
    /// `iodepth`: requests in flight per thread.
    pub iodepth: u32,
    /// `numjobs`: threads.
    pub numjobs: u32,
    /// `runtime`: the longest running time.
    pub runtime: Option<Duration>,
    /// `time_based`: runs for the whole `runtime`, however much it transfers.
    pub time_based: bool,
    /// `ramp_time`: how long it runs before it is measured, and before `runtime` begins.
    pub ramp_time: Duration,
    /// `number_ios`: the most requests of each thread in each of its `loops`.
    pub number_ios: Option<u64>,
    /// `rate_iops`: the most requests per second of each thread: reads, and writes.
    pub rate_iops: Option<[u32; 2]>,
    /// `norandommap`: random blocks, some of them several times before all have come once.
    pub norandommap: bool,
    /// `direct`: bypasses the page cache.
    pub direct: bool,
    /// `ioengine`.
    pub ioengine: IoEngine,
    /// `verify=pattern`: reads the written data back and compares it.
    pub verify: bool,
    /// `fixedbufs`: registered buffers, if the engine supports them.
    pub fixedbufs: bool,
    /// `sqthread_poll`: a kernel thread takes submissions.
    pub sqthread_poll: bool,
    /// `hipri`: polls for completions.
    pub hipri: bool,
    /// `randseed`: the random seed; 0 if `None`.
    pub randseed: Option<u64>,
    /// `randrepeat`: without a `randseed`, uses the same seed in each run.
    pub randrepeat: bool,
    /// `cpus_allowed`: the CPUs that threads are pinned to, one each, in turn.
    pub cpus_allowed: Option<CpuSet>,
    /// `tags`: how the host's tags are accounted.
    pub tags: TagPolicy,
    /// `tag_depth`: the number of tags; as many as the threads can use if `None`.
    pub tag_depth: Option<u32>,
    /// `counters`: how the device's counters are laid out.
    pub counters: CounterLayout,
    /// `memory`: where state is allocated.
    pub memory: DeviceMemory,
    /// `allow_overwrite`: permits overwriting a file or device that this benchmark did not create.
    pub allow_overwrite: bool,
    /// `allow_mounted_write`: permits writing to a device that is mounted or otherwise in use.
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

/// Defines each word of a job once: its names, and the field that it sets.
macro_rules! words {
    ($job:ident, $value:ident: $($($key:literal)|+ => $set:expr,)+) => {
        /// The words that [`BlockJob::set`] knows.
        pub const JOB_KEYS: &[&str] = &[$($($key,)+)+];

        fn set($job: &mut BlockJob, key: &str, $value: &str) -> Result<(), String> {
            match key {
                $($($key)|+ => $set,)+
                _ => return Err(format!("unknown key: expected one of {}", JOB_KEYS.join(", "))),
            }
            Ok(())
        }
    };
}

words! { job, value:
    "name" => job.name = value.to_owned(),
    "filename" => job.filename = Some(one_file(given(value)?)?),
    "rw" | "readwrite" => job.rw = named(&Pattern::NAMES, value)?,
    "rwmixread" => job.rwmixread = number(value, 0, 100)? as u8,
    "bs" | "blocksize" => job.bs = bytes_between(value, 1, 1 << 30)? as u32,
    "bssplit" => job.bssplit = split(value)?,
    "size" => job.size = Some(amount(value, 1)?),
    "offset" => job.offset = amount(value, 0)?,
    "io_size" | "io_limit" => job.io_size = Some(amount(value, 1)?),
    "loops" => job.loops = number(value, 1, u64::from(u32::MAX))? as u32,
    "iodepth" => job.iodepth = number(value, 1, 65_536)? as u32,
    "numjobs" => job.numjobs = number(value, 1, 4_096)? as u32,
    "runtime" => job.runtime = Some(duration(value)?),
    "time_based" => job.time_based = switch(value)?,
    "ramp_time" => job.ramp_time = duration(value)?,
    "rate_iops" => job.rate_iops = Some(rates(value)?),
    "norandommap" => job.norandommap = switch(value)?,
    "number_ios" => job.number_ios = Some(number(value, 1, u64::MAX)?),
    "direct" => job.direct = switch(value)?,
    "ioengine" => job.ioengine = named(&IoEngine::NAMES, value)?,
    "verify" => job.verify = named(&[("pattern", true), ("none", false), ("0", false)], value)?,
    "fixedbufs" => job.fixedbufs = switch(value)?,
    "sqthread_poll" => job.sqthread_poll = switch(value)?,
    "hipri" => job.hipri = switch(value)?,
    "randseed" => job.randseed = Some(number(value, 0, u64::MAX)?),
    "randrepeat" => job.randrepeat = switch(value)?,
    "cpus_allowed" => {
        let cpus: CpuSet = parsed(value)?;
        if cpus.is_empty() {
            return Err("expected at least one CPU".to_owned());
        }
        job.cpus_allowed = Some(cpus);
    },
    "tags" => job.tags = parsed(value)?,
    "tag_depth" => job.tag_depth = Some(number(value, 1, 1 << 20)? as u32),
    "counters" => job.counters = parsed(value)?,
    "memory" => job.memory = parsed(value)?,
    "allow_overwrite" => job.allow_overwrite = switch(value)?,
    "allow_mounted_write" => job.allow_mounted_write = switch(value)?,
    // The benchmark always behaves this way; accepted so that job files need not be changed.
    "thread" => always(value, "jobs are threads")?,
    "group_reporting" => always(value, "the threads of a job are reported together")?,
    "registerfiles" => always(value, "a ring's file is registered if it serves reads at once")?,
    "stonewall" => always(value, "jobs run one after another")?,
    "cpus_allowed_policy" => named(&[("split", ())], value)?,
}

impl BlockJob {
    /// Sets one word, as in a job file's `key=value`, or `key` alone (`value` is then empty).
    ///
    /// # Errors
    /// The problem with the key or the value, as half a sentence.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        set(self, key, value)
    }

    /// Returns the sizes of requests, ascending, and the percentage of each.
    pub(super) fn split(&self) -> Vec<(u32, u8)> {
        if self.bssplit.is_empty() { vec![(self.bs, 100)] } else { self.bssplit.clone() }
    }

    /// Returns the size of the smallest request.
    pub(super) fn smallest_bs(&self) -> u32 {
        self.bssplit.first().map_or(self.bs, |(bytes, _)| *bytes)
    }

    /// Returns whether the job ends only by time.
    pub(super) fn lasts(&self) -> bool {
        self.time_based && self.runtime.is_some()
    }

    /// Returns notes about how the job's words are interpreted.
    pub(super) fn notes(&self) -> Vec<String> {
        let name = input::plain(&self.name);
        let mut notes = Vec::new();
        if self.ioengine == IoEngine::Libaio {
            notes.push(format!(
                "{name}: ioengine=libaio is treated as ioengine=auto; see the line \"engine\""
            ));
        }
        if self.time_based && self.runtime.is_none() {
            notes.push(format!("{name}: time_based has no effect without runtime, as in fio"));
        }
        notes
    }

    /// Checks that the words are consistent.
    ///
    /// # Errors
    /// The words that contradict each other, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        let name = input::plain(&self.name);
        if self.verify && !self.rw.writes() {
            return Err(format!(
                "job {name}: verify=pattern reads back what the job wrote, but rw={} writes nothing; give \
                 rw=write or randwrite, or leave verify out",
                self.rw
            ));
        }
        if self.ioengine.has_file() && self.filename.is_none() {
            let remedy = "give a filename, or ioengine null or memory";
            return Err(format!("job {name}: no filename was given; {remedy}"));
        }
        if self.fixedbufs && self.bssplit.len() > 1 {
            return Err(format!(
                "job {name}: fixedbufs registers buffers of one size, but bssplit has {}; give one bs, or \
                 fixedbufs=0",
                self.bssplit.len()
            ));
        }
        Ok(())
    }

    /// Returns the words that the results repeat.
    pub(super) fn options(&self) -> BTreeMap<String, String> {
        let switch = |is_on: bool| is_on.then(|| "1".to_owned());
        let part = |(bytes, percent): &(u32, u8)| format!("{bytes}/{percent}");
        let split: Vec<String> = self.bssplit.iter().map(part).collect();
        let words = [
            ("name", Some(self.name.clone())),
            ("filename", self.filename.as_ref().map(|path| path.display().to_string())),
            ("rw", Some(self.rw.to_string())),
            ("bs", split.is_empty().then(|| self.bs.to_string())),
            ("bssplit", (!split.is_empty()).then(|| split.join(":"))),
            ("iodepth", Some(self.iodepth.to_string())),
            ("numjobs", Some(self.numjobs.to_string())),
            ("ioengine", Some(self.ioengine.to_string())),
            ("direct", Some(u8::from(self.direct).to_string())),
            ("tags", Some(self.tags.to_string())),
            ("counters", Some(self.counters.to_string())),
            ("memory", Some(self.memory.to_string())),
            ("size", self.size.map(|size| size.to_string())),
            ("offset", (self.offset != Amount::Bytes(0)).then(|| self.offset.to_string())),
            ("io_size", self.io_size.map(|size| size.to_string())),
            ("loops", (self.loops > 1).then(|| self.loops.to_string())),
            ("ramp_time", (!self.ramp_time.is_zero()).then(|| format!("{:?}", self.ramp_time))),
            ("rate_iops", self.rate_iops.map(|[reads, writes]| format!("{reads},{writes}"))),
            ("time_based", switch(self.time_based)),
            ("norandommap", switch(self.norandommap)),
            ("runtime", self.runtime.map(|runtime| format!("{runtime:?}"))),
            ("number_ios", self.number_ios.map(|ios| ios.to_string())),
        ];
        words.into_iter().filter_map(|(word, value)| Some((word.to_owned(), value?))).collect()
    }
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
            ("rate_iops", "1,2,3", "is not a whole number"),
            ("bssplit", "4k/50:16k/40", "do not add up to 100"),
            ("bssplit", "4k/60:16k/60", "do not add up to 100"),
            ("bssplit", "4k/100:16k", "do not add up to 100"),
            ("bssplit", "4k/50:6k/50", "not multiples of the smallest"),
            ("bssplit", "4k/100,8k/100", "different sizes for reads"),
            ("group_reporting", "0", "reported together; leave the word out"),
            ("thread", "0", "jobs are threads"),
            ("stonewall", "0", "one after another"),
            ("registerfiles", "0", "registered"),
            ("filename", "/a:/b", "names several files"),
            ("direct", "yes", "expected one of 1, 0"),
            ("filename", "", "expected a value"),
            ("iodept", "1", "unknown key"),
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
            assert!(!error.contains("unknown key"), "{key}");
        }
    }
}

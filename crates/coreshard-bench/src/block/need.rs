//! Checks a job's memory before it allocates any: a process that takes more than the machine has is killed,
//! possibly with others.

use std::fs;

use coreshard_topology::input;

use super::job::{BlockJob, IoEngine};

/// The bytes of a request in addition to its buffer: its slot, its stamp, its completion.
const REQUEST_BYTES: u64 = 512;

/// Checks that there is enough memory for the job on a device of `size` bytes.
///
/// # Errors
/// How much memory it needs, what for, and how much is available, as a sentence.
pub(super) fn check(job: &BlockJob, size: u64) -> Result<(), String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let groups = [
        ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"],
        [
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ],
    ];
    let groups = groups.map(|group| group.map(read));
    match available(&read("/proc/meminfo"), &groups) {
        Some(available) => verdict(job, size, available),
        None => Ok(()),
    }
}

/// Explains why buffers cannot be registered, if they exceed the limit on locked memory.
pub(super) fn locked(job: &BlockJob) -> Option<String> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    // "unlimited" is not a number.
    locked_verdict(job, line.split_whitespace().next()?.parse().ok()?)
}

fn locked_verdict(job: &BlockJob, limit: u64) -> Option<String> {
    let each = u64::from(job.bs).next_multiple_of(4096);
    let needed = u64::from(job.numjobs).saturating_mul(u64::from(job.iodepth)).saturating_mul(each);
    (needed > limit).then(|| {
        format!(
            "RLIMIT_MEMLOCK is {limit} bytes (ulimit -l), and numjobs, iodepth and bs need {needed}"
        )
    })
}

fn verdict(job: &BlockJob, size: u64, available: u64) -> Result<(), String> {
    // A request of any size may use any place.
    let buffers: u64 =
        job.split().iter().map(|(bytes, _)| u64::from(*bytes).next_multiple_of(4096)).sum();
    let mut parts = vec![(
        "buffers (numjobs, iodepth and bs)",
        u64::from(job.numjobs)
            .saturating_mul(u64::from(job.iodepth))
            .saturating_mul(buffers + REQUEST_BYTES),
    )];
    if job.ioengine == IoEngine::Memory {
        parts.push(("the device in memory (size)", size));
    }
    if job.verify {
        let blocks = size / u64::from(job.smallest_bs());
        let sets = (blocks / 8).saturating_mul(u64::from(job.numjobs));
        parts.push(("the list of blocks to verify (numjobs, size and bs)", sets));
    }
    let needed = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.1));
    if needed <= available {
        return Ok(());
    }
    let largest = parts.iter().max_by_key(|part| part.1).map_or("", |part| part.0);
    Err(format!(
        "job {}: needs {} MiB of memory, most of it for {largest}, but {} MiB are available; give smaller \
         ones",
        input::plain(&job.name),
        needed >> 20,
        available >> 20
    ))
}

/// Returns the available bytes: the machine's, and those left to this process's control group. Returns `None`
/// if neither can be read.
fn available(meminfo: &str, groups: &[[String; 2]]) -> Option<u64> {
    let machine = meminfo.lines().find_map(|line| {
        let kib: u64 =
            line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib.saturating_mul(1024))
    });
    // "max" is not a number, and no limit.
    let number = |text: &String| text.trim().parse::<u64>().ok();
    let left = groups
        .iter()
        .filter_map(|[limit, used]| Some(number(limit)?.saturating_sub(number(used).unwrap_or(0))));
    machine.into_iter().chain(left).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_anybody_tells_is_what_can_be_had() {
        let meminfo = "MemTotal:  100 kB\nMemFree: 5 kB\nMemAvailable:   80 kB\n";
        let group = |limit: &str, used: &str| [[limit.to_owned(), used.to_owned()]];
        assert_eq!(available(meminfo, &[]), Some(81_920));
        assert_eq!(available(meminfo, &group("max\n", "10\n")), Some(81_920));
        assert_eq!(available(meminfo, &group("50000\n", "20000\n")), Some(30_000));
        assert_eq!(available(meminfo, &group("50000\n", "60000\n")), Some(0));
        assert_eq!(available("", &group("", "")), None);
    }

    #[test]
    fn registered_buffers_are_explained_by_a_limit_that_they_exceed() {
        let job = BlockJob { iodepth: 16, numjobs: 2, ..BlockJob::default() };
        let cause = locked_verdict(&job, 65_536).unwrap();
        assert!(cause.contains("is 65536 bytes") && cause.contains("need 131072"), "{cause}");
        assert_eq!(locked_verdict(&job, 131_072), None);
    }

    #[test]
    fn jobs_that_need_too_much_are_told_what_for() {
        let job = BlockJob::default();
        verdict(&job, 1 << 40, 1 << 20).unwrap();
        let large = BlockJob { bs: 1 << 30, iodepth: 65_536, numjobs: 4_096, ..job.clone() };
        let problem = verdict(&large, 0, 1 << 34).unwrap_err();
        assert!(problem.contains("for buffers") && problem.contains("16384 MiB are"), "{problem}");
        let memory = BlockJob { ioengine: IoEngine::Memory, ..job.clone() };
        assert!(verdict(&memory, 1 << 62, 1 << 34).unwrap_err().contains("in memory (size)"));
        let verifies = BlockJob { verify: true, bs: 1, ..job };
        assert!(verdict(&verifies, 1 << 40, 1 << 30).unwrap_err().contains("blocks to verify"));
    }
}

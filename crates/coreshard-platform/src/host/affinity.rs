//! The CPUs that a thread may run on, sched_setaffinity(2).

use std::io;

use coreshard_topology::CpuSet;

use super::cause;
use super::cpu_mask::{affinity_of, ask, words_of};
use crate::{AffinityError, ThreadId};

/// The CPUs that the calling thread may run on.
///
/// # Errors
/// Where the kernel does not say.
pub fn affinity() -> Result<CpuSet, AffinityError> {
    affinity_of(0)
}

/// Asks that the calling thread run on `cpus` only, and reads the answer back.
///
/// # Errors
/// Where the kernel refuses, or sets other CPUs than were asked for.
pub fn set_affinity(cpus: &CpuSet) -> Result<(), AffinityError> {
    const CALLER: ThreadId = ThreadId(0);
    if !ask(CALLER, &words_of(cpus)) {
        let error = io::Error::last_os_error();
        return Err(AffinityError::refused(cpus.clone(), error).because(cause::of_affinity(cpus)));
    }
    let found = affinity()?;
    if found == *cpus {
        return Ok(());
    }
    Err(AffinityError::read_back(cpus, &found).because(cause::of_affinity(cpus)))
}

#[cfg(test)]
mod tests {
    use coreshard_topology::CpuId;

    use super::*;

    #[test]
    fn an_affinity_is_set_and_read_back() {
        std::thread::spawn(|| {
            let all = affinity().unwrap();
            let one: CpuSet = all.iter().take(1).collect();
            set_affinity(&one).unwrap();
            assert_eq!(affinity().unwrap(), one);
            set_affinity(&all).unwrap();
            assert_eq!(affinity().unwrap(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_and_named() {
        std::thread::spawn(|| {
            let absent: CpuSet = [CpuId(8_191)].into_iter().collect();
            let error = set_affinity(&absent).unwrap_err().to_string();
            assert!(error.contains("; CPUs 8191 are not online"), "{error}");
        })
        .join()
        .unwrap();
    }
}

//! The CPUs that a thread may run on, sched_setaffinity(2).
#![allow(unsafe_code)]

use std::io;

use coreshard_topology::{CpuId, CpuSet};

use crate::{AffinityError, ThreadId};

/// Masks grow until the kernel is content; no kernel has more CPUs than this.
const MAX_CPUS: usize = 1 << 20;
const MAX_CPUS_UNALLOCATED: usize = 4_096;
const WORD_BITS: usize = u64::BITS as usize;

/// The CPUs that the calling thread may run on.
///
/// # Errors
/// Where the kernel does not say.
pub fn affinity() -> Result<CpuSet, AffinityError> {
    affinity_of(0)
}

/// The CPUs that a thread of this process may run on; 0 means the calling one, and the process's id its
/// main thread.
pub(super) fn affinity_of(thread: libc::pid_t) -> Result<CpuSet, AffinityError> {
    let mut words = vec![0_u64; 16];
    loop {
        // SAFETY: the buffer is live and as long as is said. The raw system call is used because it
        // returns how many bytes the kernel filled.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                thread,
                words.len() * size_of::<u64>(),
                words.as_mut_ptr(),
            )
        };
        if rc >= 0 {
            return Ok(cpus_of(&words));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() * WORD_BITS >= MAX_CPUS {
            return Err(AffinityError::not_told(error));
        }
        let longer = words.len() * 2;
        words.resize(longer, 0);
    }
}

/// Asks that the calling thread run on `cpus` only, and reads the answer back.
///
/// # Errors
/// Where the kernel refuses, or sets other CPUs than were asked for.
pub fn set_affinity(cpus: &CpuSet) -> Result<(), AffinityError> {
    const CALLER: ThreadId = ThreadId(0);
    if !ask(CALLER, &words_of(cpus)) {
        return Err(AffinityError::refused(cpus.clone(), io::Error::last_os_error()));
    }
    let found = affinity()?;
    if found == *cpus {
        return Ok(());
    }
    Err(AffinityError::read_back(cpus.clone(), found))
}

/// Asks that a thread of this process run on `cpus` only. False where the kernel refuses, or one of
/// them is beyond what is asked for without allocating.
pub(super) fn set_affinity_of(thread: ThreadId, cpus: impl Iterator<Item = CpuId>) -> bool {
    let mut words = [0; MAX_CPUS_UNALLOCATED / WORD_BITS];
    for cpu in cpus {
        let Some(word) = words.get_mut(cpu.index() / WORD_BITS) else { return false };
        *word |= 1 << (cpu.index() % WORD_BITS);
    }
    ask(thread, &words)
}

pub(super) fn ask(ThreadId(thread): ThreadId, words: &[u64]) -> bool {
    // SAFETY: the buffer is live and as long as is said.
    let rc = unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, thread, size_of_val(words), words.as_ptr())
    };
    rc == 0
}

pub(super) fn words_of(cpus: &CpuSet) -> Vec<u64> {
    let mut words = vec![0_u64; 1];
    for cpu in cpus.iter() {
        let word = cpu.index() / WORD_BITS;
        if word >= words.len() {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (cpu.index() % WORD_BITS);
    }
    words
}

fn cpus_of(words: &[u64]) -> CpuSet {
    let mut cpus = CpuSet::new();
    for (at, word) in words.iter().enumerate() {
        for bit in (0..WORD_BITS).filter(|bit| word & (1 << bit) != 0) {
            cpus.insert(CpuId((at * WORD_BITS + bit) as u32));
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
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
            assert!(error.contains("8191"), "{error}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn words_and_sets_say_the_same() {
        let cpus: CpuSet = [0, 63, 64, 4_095].into_iter().map(CpuId).collect();
        assert_eq!(cpus_of(&words_of(&cpus)), cpus);
    }
}

//! Reads and sets a thread's CPUs with sched_getaffinity(2) and its counterpart, without explaining failures.
#![allow(unsafe_code)]

use std::io;

use coreshard_topology::{CpuId, CpuSet};

use crate::{AffinityError, ThreadId};

/// Masks grow until the kernel accepts their size. No kernel supports more CPUs than this.
const MAX_CPUS: usize = 1 << 20;
const MAX_CPUS_UNALLOCATED: usize = 4_096;
const WORD_BITS: usize = u64::BITS as usize;

/// Returns the CPUs that a thread of this process may run on. Thread 0 is the calling thread; the process id
/// is its main thread.
pub(super) fn affinity_of(thread: libc::pid_t) -> Result<CpuSet, AffinityError> {
    let mut words = vec![0_u64; 16];
    loop {
        // SAFETY: the buffer is live and has the given length. The raw system call is used because it returns
        // the number of bytes that the kernel filled.
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

/// Restricts a thread of this process to `cpus`. Returns false if the kernel refuses, or if a CPU is beyond
/// the mask that fits on the stack.
pub(super) fn set_affinity_of(thread: ThreadId, cpus: impl Iterator<Item = CpuId>) -> bool {
    let mut words = [0; MAX_CPUS_UNALLOCATED / WORD_BITS];
    for cpu in cpus {
        let Some(word) = words.get_mut(cpu.index() / WORD_BITS) else { return false };
        *word |= 1 << (cpu.index() % WORD_BITS);
    }
    ask(thread, &words)
}

pub(super) fn ask(ThreadId(thread): ThreadId, words: &[u64]) -> bool {
    // SAFETY: the buffer is live and has the given length.
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
    fn words_and_sets_say_the_same() {
        let cpus: CpuSet = [0, 63, 64, 4_095].into_iter().map(CpuId).collect();
        assert_eq!(cpus_of(&words_of(&cpus)), cpus);
    }
}

//! Threads with a name, an affinity, a nice value and a stack size. Each is read back. All other attributes
//! come from the process, not from the creator: see `inherited`.
#![allow(unsafe_code)]

use std::io;
use std::sync::mpsc;

use coreshard_topology::CpuSet;

use super::cause;
use super::cpu_mask::{affinity_of, ask, words_of};
use super::inherited::Inherited;
use super::limits::{nice_of, soft_limit};
use crate::platform::errors::SpawnFailure;
use crate::{AffinityError, SpawnError, ThreadHandle, ThreadId, ThreadSpec};

/// A thread of this process.
#[derive(Debug)]
pub struct HostThread(std::thread::JoinHandle<()>);

impl ThreadHandle for HostThread {
    fn join(self) {
        // A panicking body has already printed its panic; only its end was awaited.
        drop(self.0.join());
    }
}

pub(super) fn spawn(
    spec: ThreadSpec,
    body: Box<dyn FnOnce() + Send>,
) -> Result<HostThread, SpawnError> {
    spawn_prepared(spec, None, body)
}

/// The last step that a thread takes before its body.
pub(super) type Prepare = Box<dyn FnOnce() -> Result<(), SpawnFailure> + Send>;

/// Like [`spawn`], with one more step before the body. If it fails, the start fails.
pub(super) fn spawn_prepared(
    spec: ThreadSpec,
    prepare: Option<Prepare>,
    body: Box<dyn FnOnce() + Send>,
) -> Result<HostThread, SpawnError> {
    let ThreadSpec { mut name, affinity, nice, stack_bytes } = spec;
    name.retain(|letter| letter != '\0');
    let fail = |failure| SpawnError::new(name.clone(), failure);
    let failed = |error: io::Error| fail(error.into());
    let mut builder = std::thread::Builder::new().name(name.clone());
    if let Some(bytes) = stack_bytes {
        builder = builder.stack_size(bytes);
    }
    has_room_for(stack_bytes.unwrap_or(STACK_BYTES)).map_err(failed)?;
    let process = Inherited::of_process();
    // Attributes of the process cannot fail to apply, so the creator does not wait for them.
    let affinity = affinity.filter(|cpus| !process.has_cpus(cpus));
    if affinity.is_none() && nice.is_none() && prepare.is_none() {
        let thread = builder.spawn(move || {
            process.give(false, false);
            body();
        });
        return thread.map(HostThread).map_err(failed);
    }
    let (report, outcome) = mpsc::sync_channel(1);
    let set_up = move || {
        process.give(affinity.is_some(), nice.is_some());
        affinity.as_ref().map_or(Ok(()), set_affinity)?;
        nice.map_or(Ok(()), set_nice)?;
        prepare.map_or(Ok(()), |prepare| prepare())
    };
    let thread = builder.spawn(move || {
        let prepared = set_up();
        let ready = prepared.is_ok();
        // The creator waits for this message, so the channel is open.
        drop(report.send(prepared));
        if ready {
            body();
        }
    });
    let thread = thread.map_err(failed)?;
    match outcome.recv() {
        Ok(Ok(())) => Ok(HostThread(thread)),
        Ok(Err(failure)) => {
            drop(thread.join());
            Err(fail(failure))
        }
        Err(mpsc::RecvError) => Err(failed(io::Error::other("it ended at its start"))),
    }
}

/// The standard library's default stack size, unless `RUST_MIN_STACK` overrides it.
const STACK_BYTES: usize = 2 << 20;

/// Memory that a thread needs beside its stack when it starts, rounded up: guard pages, its name, and a
/// signal stack, without which the standard library aborts the process.
const BESIDE_STACK_BYTES: usize = 256 << 10;

/// Returns an error if memory for a thread's stack cannot be mapped. The C library may reuse a cached stack
/// and start the thread anyway. A later failed allocation during its start would then abort the process.
///
/// Tried only if the address space is limited. Without a limit, the attempt would always succeed, and would
/// block all other threads that touch new memory.
fn has_room_for(stack_bytes: usize) -> io::Result<()> {
    if soft_limit(libc::RLIMIT_AS).is_none() {
        return Ok(());
    }
    let bytes = stack_bytes.saturating_add(BESIDE_STACK_BYTES);
    // SAFETY: maps new memory at an address of the kernel's choice; it is not touched.
    let memory = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0)
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: mapped just now, and not used.
    unsafe { libc::munmap(memory, bytes) };
    Ok(())
}

/// Sets the calling thread's nice value. On Linux it is per thread (setpriority(2), "C library/kernel
/// differences").
fn set_nice(asked: i8) -> Result<(), SpawnFailure> {
    // SAFETY: system calls with integers; 0 means the calling thread.
    let rc = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, i32::from(asked)) };
    if rc != 0 {
        let error = io::Error::last_os_error();
        let cause = cause::of_nice(asked, error.raw_os_error());
        return Err(SpawnFailure::nice_refused(asked, error, cause));
    }
    match nice_of(0) {
        Some(found) if found == i32::from(asked) => Ok(()),
        Some(found) => Err(SpawnFailure::nice_read_back(asked, found)),
        None => Err(SpawnFailure::nice_refused(asked, io::Error::last_os_error(), None)),
    }
}

/// Returns the CPUs that the calling thread may run on.
///
/// # Errors
/// If the kernel does not report them.
pub fn affinity() -> Result<CpuSet, AffinityError> {
    affinity_of(0)
}

/// Restricts the calling thread to `cpus`, and reads the result back.
///
/// # Errors
/// If the kernel refuses, or sets other CPUs than requested.
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
    use coreshard_topology::{CpuId, CpuSet};

    use super::*;

    #[test]
    fn a_thread_has_the_name_the_affinity_and_the_nice_value_asked_for() {
        let cpu: CpuSet = crate::affinity().unwrap().iter().take(1).collect();
        let spec = ThreadSpec {
            name: "coreshard\0-test\0".into(),
            affinity: Some(cpu.clone()),
            // Every thread may request this.
            nice: Some(19),
            stack_bytes: Some(256 << 10),
        };
        let (report, seen) = mpsc::channel();
        let body = move || {
            let name = std::thread::current().name().map(str::to_owned);
            report.send((name, crate::affinity().unwrap())).unwrap();
        };
        spawn(spec, Box::new(body)).unwrap().join();
        assert_eq!(seen.recv().unwrap(), (Some("coreshard-test".to_owned()), cpu));
    }

    #[test]
    fn an_affinity_that_cannot_be_had_is_an_error_and_the_body_does_not_run() {
        let absent: CpuSet = [CpuId(8_000)].into_iter().collect();
        let spec = ThreadSpec { name: "lost".into(), affinity: Some(absent), ..Default::default() };
        let error = spawn(spec, Box::new(|| panic!("must not run"))).unwrap_err().to_string();
        assert!(error.contains("\"lost\"") && error.contains("8000"), "{error}");
    }

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

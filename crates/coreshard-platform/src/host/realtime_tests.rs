//! Real-time tests that pass with and without privileges: a thread drops the privileges of this process.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};

use testing::{Lack, NEVER, skip};

use super::*;
use crate::{Platform, ThreadHandle};

/// Runs `body` on a thread without CAP_SYS_NICE and CAP_IPC_LOCK.
fn unprivileged<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    let dropped = move || {
        // _LINUX_CAPABILITY_VERSION_3, the calling thread; effective, permitted and inheritable sets, two
        // words each.
        let header = Header { version: 0x2008_0522, pid: 0 };
        let mut sets = [0_u32; 6];
        let lost = !(1 << CAP_IPC_LOCK | 1 << CAP_SYS_NICE);
        // SAFETY: header and sets are live and have the layout of capget(2), version 3.
        unsafe {
            libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr());
            sets[0] &= lost;
            sets[1] &= lost;
            let rc = libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr());
            assert_eq!(rc, 0, "{}", io::Error::last_os_error());
        }
        body()
    };
    std::thread::spawn(dropped).join().unwrap()
}

fn may_have_priorities() -> bool {
    let spawned = Host::spawn_as(ThreadSpec::default(), Policy::Fifo(1), Box::new(|| {}));
    spawned.map(ThreadHandle::join).is_ok()
}

#[test]
fn a_thread_has_its_policy_or_there_is_an_error_with_the_limit() {
    let (say, hear) = mpsc::channel();
    let spec = ThreadSpec { name: "fixed".into(), ..ThreadSpec::default() };
    let body = move || say.send(policy_of(0).unwrap()).unwrap();
    match Host::spawn_as(spec, Policy::Fifo(7), Box::new(body)) {
        Ok(thread) => {
            thread.join();
            let found = hear.recv().unwrap();
            assert_eq!(found.policy(), Policy::Fifo(7));
            assert_eq!(found.flags & SCHED_FLAG_RESET_ON_FORK, SCHED_FLAG_RESET_ON_FORK);
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("RLIMIT_RTPRIO") && error.contains('7'), "{error}");
            hear.recv().unwrap_err();
        }
    }
}

#[test]
fn the_deadline_policy_is_refused_to_a_pinned_thread_for_its_affinity() {
    let cpus = crate::affinity().unwrap();
    if cpus.len() < 2 || !has_capability(CAP_SYS_NICE) {
        return skip(Lack::Rt, "the affinity is not the reason here");
    }
    let spec =
        ThreadSpec { affinity: Some(cpus.iter().take(1).collect()), ..ThreadSpec::default() };
    let policy =
        Policy::Deadline { runtime: Duration::from_millis(1), period: Duration::from_millis(100) };
    let error = Host::spawn_as(spec, policy, Box::new(|| {})).unwrap_err().to_string();
    let says =
        format!("may run on CPUs {}, and the kernel gives this policy", cpus.first().unwrap());
    assert!(error.contains(&says) && !error.contains("RLIMIT"), "{error}");
}

#[test]
fn without_privilege_the_needed_values_are_told() {
    let (limits, policy, memory) = unprivileged(|| {
        let policy = Host::spawn_as(
            ThreadSpec { name: "lost".into(), ..ThreadSpec::default() },
            Policy::Fifo(50),
            Box::new(|| panic!("must not run")),
        );
        let memory = Host::lock_memory().map(drop);
        (Host::real_time_limits(), policy.map(drop), memory)
    });
    if limits.priority < 50 {
        let error = policy.unwrap_err().to_string();
        let needs =
            format!("RLIMIT_RTPRIO is {}, and 50 or CAP_SYS_NICE is needed", limits.priority);
        assert!(error.contains("\"lost\"") && error.contains(&needs), "{error}");
    }
    // Another test of this process may hold the lock; then this one needs no memory.
    if let (Some(limit), Err(error)) = (limits.locked_bytes, memory) {
        let error = error.to_string();
        assert!(error.contains(&format!("RLIMIT_MEMLOCK is {limit} bytes")), "{error}");
    }
}

#[test]
fn what_a_real_time_thread_starts_is_normal() {
    if !may_have_priorities() {
        return skip(Lack::Rt, "a thread may have no priority");
    }
    let (say, hear) = mpsc::channel();
    let body = move || {
        let child = std::thread::spawn(|| policy_of(0).unwrap().policy());
        say.send(child.join().unwrap()).unwrap();
    };
    Host::spawn_as(ThreadSpec::default(), Policy::Fifo(3), Box::new(body)).unwrap().join();
    assert_eq!(hear.recv().unwrap(), Policy::Normal);
}

#[test]
fn another_thread_is_demoted() {
    let (say, hear) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let body = move || {
        say.send(cpu::this_thread()).unwrap();
        let _ = stopped.recv();
    };
    let Ok(thread) = Host::spawn_as(ThreadSpec::default(), Policy::Fifo(2), Box::new(body)) else {
        return skip(Lack::Rt, "a thread may have no priority");
    };
    let id = hear.recv().unwrap();
    Host::set_policy(id, Policy::Normal).unwrap();
    assert_eq!(policy_of(id.0).unwrap().policy(), Policy::Normal);
    drop(stop);
    thread.join();
    // The kernel reports a thread's end slightly before the thread has been removed.
    let since = std::time::Instant::now();
    while Host::set_policy(id, Policy::Normal).is_ok() {
        assert!(since.elapsed() < NEVER, "the thread has not ended");
        std::thread::yield_now();
    }
}

#[test]
fn a_lock_with_inheritance_is_handed_over_and_times_out() {
    let word = Arc::new(AtomicU32::new(0));
    word.store(Host::holder_word(), SeqCst);
    let soon = Host::now() + Duration::from_millis(1);
    assert_eq!(Host::lock_inheriting(&word, None), Err(InheritError::WouldDeadlock));
    let theirs = Arc::clone(&word);
    let (say, hear) = mpsc::channel();
    let other = std::thread::spawn(move || {
        assert_eq!(Host::lock_inheriting(&theirs, Some(soon)), Err(InheritError::TimedOut));
        say.send(()).unwrap();
        Host::lock_inheriting(&theirs, None).unwrap();
        assert_eq!(theirs.load(SeqCst) & libc::FUTEX_TID_MASK, Host::holder_word());
        Host::unlock_inheriting(&theirs);
    });
    hear.recv().unwrap();
    Host::unlock_inheriting(&word);
    other.join().unwrap();
    assert_eq!(word.load(SeqCst), 0);
}

#[test]
fn a_sleep_ends_at_its_moment_and_not_before() {
    let moment = Host::now() + Duration::from_millis(2);
    Host::sleep_to(moment);
    assert!(Host::now() >= moment);
    Host::sleep_to(Time::from_ns(0));
}

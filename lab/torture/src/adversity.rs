//! The mixed load in child processes under adverse conditions.
//!
//! The parent raises and lowers the child's limits while it runs, so that each call meets them at another time. The
//! child must keep the usual guarantees: each accepted item runs once or is returned, and nothing hangs.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use fastrand::Rng;

use crate::LoadOptions;

#[derive(Args)]
pub(crate) struct Options {
    /// The adversity; `all` for each in turn.
    #[arg(value_enum)]
    adversity: Adversity,
    /// How many runs, each with another seed.
    #[arg(long, default_value_t = 10)]
    runs: u64,
    #[command(flatten)]
    load: LoadOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Adversity {
    All,
    /// Nothing: the load alone.
    None,
    /// At times, no further thread may be started (`RLIMIT_NPROC`).
    Threads,
    /// The same, by the control group (`pids.max`).
    Pids,
    /// No further memory may be mapped, so no stack for a thread (`RLIMIT_AS`).
    AddressSpace,
    /// No further descriptor may be opened (`RLIMIT_NOFILE`).
    Descriptors,
    /// Priority, scheduling, memory policy and io_uring are forbidden (seccomp).
    Denials,
    /// Stopped and continued repeatedly.
    Stops,
    /// Signals at random threads: each wait may end early.
    Signals,
    /// The process forks all the time.
    Forks,
    /// The CPUs that it may use change.
    Cpus,
}

/// The memory that the child's heap takes at its start if the address space is limited.
const HEAP_ROOM_BYTES: u64 = 512 << 20;

impl Adversity {
    fn name(self) -> String {
        self.to_possible_value().expect("each has a name").get_name().to_owned()
    }
}

#[allow(clippy::print_stdout, clippy::print_stderr)]
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let chosen: Vec<Adversity> = match options.adversity {
        Adversity::All => Adversity::value_variants()[1..].to_vec(),
        one => vec![one],
    };
    let mut failed = 0;
    for adversity in chosen {
        if let Err(why) = adversity.is_possible() {
            println!("{:<14} NOT RUN: {why:#}", adversity.name());
            continue;
        }
        let begin = Instant::now();
        let (mut wrong, mut ended) = (0, 0);
        for run in 0..options.runs {
            let seed = options.load.seed + run;
            match once(adversity, seed, &options.load) {
                Ok(()) => {}
                Err(error) if error.to_string().contains(STANDARD_LIBRARYS_END) => ended += 1,
                Err(error) => {
                    wrong += 1;
                    eprintln!("{} with seed {seed}: {error:#}", adversity.name());
                }
            }
        }
        let (name, runs) = (adversity.name(), options.runs);
        let seconds = begin.elapsed().as_secs_f64();
        print!("{name:<14} {runs} runs, {wrong} failed, {seconds:.0} s");
        if ended > 0 {
            print!("; {ended} ended by the standard library for lack of a thread's signal stack");
        }
        println!();
        failed += wrong;
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The standard library's message when it ends a process because a new thread gets no memory for its signal stack. A start
/// checks for room first, but the limit may fall, or another thread may take the room, in between.
const STANDARD_LIBRARYS_END: &str = "failed to allocate an alternative stack";

/// Runs one child. The error has its output.
fn once(adversity: Adversity, seed: u64, load: &LoadOptions) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("run").args(["--seed", &seed.to_string()]);
    command.args(["--threads", &load.threads.to_string()]);
    command.args(["--seconds", &load.seconds.to_string()]);
    command.args(["--hang-after", &load.hang_after.to_string()]);
    let only = match adversity {
        Adversity::Forks => "fork,queue,submit,spawn,work,scope,short_queue,waits".to_owned(),
        _ => load.only.join(","),
    };
    if !only.is_empty() {
        command.args(["--only", &only]);
    }
    if !load.without.is_empty() {
        command.args(["--without", &load.without.join(",")]);
    }
    adversity.prepare(&mut command, seed);
    // In every second run, the limit is set from the start and stays: a limit that is lifted also repairs the failures that it
    // causes.
    let is_own = adversity == Adversity::Threads && !seed.is_multiple_of(2);
    if is_own {
        command.args(["--spare-threads", &(seed / 2 % 5).to_string()]);
    }
    let acts = if is_own { Adversity::None } else { adversity };
    let log = tempfile::NamedTempFile::new()?;
    command.stdin(Stdio::null()).stdout(log.reopen()?).stderr(log.reopen()?);
    let mut child = command.spawn().context("the child cannot be started")?;
    let disturbed = Disturbance::new(acts, child.id() as libc::pid_t, seed);
    let status = disturbed.and_then(|disturbance| {
        // The child reports its hangs itself; this is for a child that cannot.
        let longest = Duration::from_secs_f64(load.seconds + 2.0 * load.hang_after + 30.0);
        wait(&mut child, disturbance, longest)
    });
    if status.is_err() {
        let _ = child.kill();
        let _ = child.wait();
    }
    let status = status?;
    if status.success() {
        return Ok(());
    }
    let said = std::fs::read_to_string(log.path())?;
    let end = said.len().saturating_sub(2_000);
    let said = said.get(end..).unwrap_or(&said);
    match status.signal() {
        Some(signal) => bail!("ended by signal {signal}: {said}"),
        None => bail!("{said}"),
    }
}

/// Disturbs a child until it ends.
fn wait(child: &mut Child, mut disturbance: Disturbance, longest: Duration) -> Result<ExitStatus> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if begin.elapsed() > longest {
            bail!("has not ended within {} s, and has not reported a hang", longest.as_secs());
        }
        disturbance.act(begin.elapsed());
        thread::sleep(Duration::from_millis(2));
    }
}

impl Adversity {
    /// Fails with the feature that the machine lacks for it.
    fn is_possible(self) -> Result<()> {
        // SAFETY: no arguments.
        let is_root = unsafe { libc::geteuid() } == 0;
        match self {
            Self::Threads if !is_root => bail!("another user's id is needed: run it as root"),
            Self::Pids => drop(ControlGroup::new()?),
            _ => {}
        }
        Ok(())
    }

    /// Sets limits and the environment before the child runs.
    fn prepare(self, command: &mut Command, seed: u64) {
        match self {
            Self::Threads => {
                // A separate user, whose threads are counted separately; root is not limited at all.
                let user =
                    1_000_000 + (std::process::id() * 1_000 + seed as u32 % 1_000) % 1_000_000;
                command.uid(user).gid(user);
            }
            Self::AddressSpace => {
                // The heap has its memory from the start, so that the limit affects stacks and other mappings: a Rust
                // program ends if its heap is out of memory.
                command.env("MALLOC_TOP_PAD_", HEAP_ROOM_BYTES.to_string());
                command.env("MALLOC_TRIM_THRESHOLD_", (1_usize << 40).to_string());
                command.env("MALLOC_MMAP_THRESHOLD_", (1_usize << 40).to_string());
                command.env("MALLOC_ARENA_MAX", "1");
            }
            // SAFETY: between fork and exec it does nothing but two system calls.
            Self::Denials => unsafe {
                command.pre_exec(deny);
            },
            _ => {}
        }
    }
}

/// Forbids the calls that a container's profile may forbid, for this process and its children.
fn deny() -> io::Result<()> {
    const DENIED: [libc::c_long; 9] = [
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
        libc::SYS_setpriority,
        libc::SYS_set_mempolicy,
        libc::SYS_mbind,
        libc::SYS_move_pages,
        libc::SYS_io_uring_setup,
        libc::SYS_mlockall,
        libc::SYS_membarrier,
    ];
    const DENY: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let op = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut filter = [op(0, 0); 2 * DENIED.len() + 2];
    // The system call's number is the first word of a filter's input.
    filter[0] = op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0);
    for (at, call) in DENIED.iter().enumerate() {
        let equals = op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32);
        filter[1 + 2 * at] = libc::sock_filter { jf: 1, ..equals };
        filter[2 + 2 * at] = op(libc::BPF_RET | libc::BPF_K, DENY);
    }
    filter[1 + 2 * DENIED.len()] = op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lives until the call has returned.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The parent's actions on a running child.
struct Disturbance {
    adversity: Adversity,
    child: libc::pid_t,
    rng: Rng,
    /// The time of the next change.
    next: Duration,
    tight: bool,
    /// The original limit, to restore it.
    wide: Option<libc::rlimit>,
    group: Option<ControlGroup>,
}

impl Disturbance {
    fn new(adversity: Adversity, child: libc::pid_t, seed: u64) -> Result<Self> {
        let group = match adversity {
            Adversity::Pids => Some(ControlGroup::new()?),
            _ => None,
        };
        if let Some(group) = &group {
            group.write("cgroup.procs", &child.to_string())?;
        }
        Ok(Self {
            adversity,
            child,
            rng: Rng::with_seed(seed),
            // Sometimes after the first threads have started.
            next: Duration::from_millis(20 + seed % 8 * 40),
            tight: false,
            wide: None,
            group,
        })
    }

    fn act(&mut self, now: Duration) {
        if now < self.next {
            return;
        }
        self.tight = !self.tight;
        let longest = match self.adversity {
            Adversity::Signals => 1,
            Adversity::Stops => 20,
            _ => 120,
        };
        self.next = now + Duration::from_millis(self.rng.u64(1..=longest));
        match self.adversity {
            Adversity::Threads => {
                let slack = self.rng.u64(..3);
                self.limit(libc::RLIMIT_NPROC, |child| threads(child).map(|now| now + slack));
            }
            Adversity::AddressSpace => {
                // The heap takes its memory at its first use: waits for that.
                if address_space(self.child).is_none_or(|bytes| bytes < HEAP_ROOM_BYTES) {
                    self.tight = false;
                    return;
                }
                let slack = self.rng.u64(..4) << 20;
                self.limit(libc::RLIMIT_AS, |child| address_space(child).map(|n| n + slack));
            }
            Adversity::Descriptors => {
                let slack = self.rng.u64(..3);
                self.limit(libc::RLIMIT_NOFILE, |child| descriptors(child).map(|n| n + slack));
            }
            Adversity::Pids => {
                let slack = self.rng.i64(-6..3);
                let now = threads(self.child).and_then(|now| now.checked_add_signed(slack));
                let limit =
                    if self.tight { now.unwrap_or(1).to_string() } else { "max".to_owned() };
                if let Some(group) = &self.group {
                    let _ = group.write("pids.max", &limit);
                }
            }
            Adversity::Stops => {
                self.signal(if self.tight { libc::SIGSTOP } else { libc::SIGCONT });
            }
            Adversity::Signals => self.interrupt_a_thread(),
            Adversity::Cpus => self.change_cpus(),
            Adversity::All | Adversity::None | Adversity::Denials | Adversity::Forks => {}
        }
    }

    /// Sets the child's limit to what it uses, or lifts it.
    fn limit(
        &mut self,
        what: libc::__rlimit_resource_t,
        used: impl FnOnce(libc::pid_t) -> Option<u64>,
    ) {
        let child = self.child;
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the words are on this stack. The child was not waited for yet, so its id is not reused.
        if unsafe { libc::prlimit(child, what, std::ptr::null(), &raw mut before) } != 0 {
            return;
        }
        let wide = *self.wide.get_or_insert(before);
        let used = if self.tight { used(child) } else { None };
        let soft = used.map_or(wide.rlim_cur, |used| used.min(wide.rlim_cur));
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: wide.rlim_max };
        // SAFETY: as above.
        unsafe { libc::prlimit(child, what, &raw const limit, std::ptr::null_mut()) };
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the child was not waited for yet, so its id is not reused.
        unsafe { libc::kill(self.child, signal) };
    }

    fn interrupt_a_thread(&mut self) {
        // Waits until it has its handler.
        if !catches(self.child, libc::SIGUSR1) {
            return;
        }
        let all = thread_ids(self.child);
        if let Some(thread) = self.rng.choice(all) {
            // SAFETY: as in `signal`; the kernel checks that the thread belongs to the child.
            unsafe { libc::syscall(libc::SYS_tgkill, self.child, thread, libc::SIGUSR1) };
        }
    }

    fn change_cpus(&mut self) {
        // SAFETY: a set of CPUs is valid when zeroed, and filled by the call.
        let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: fills the local set with this process's CPUs.
        if unsafe { libc::sched_getaffinity(0, size, &raw mut allowed) } != 0 {
            return;
        }
        // SAFETY: numbers below the set's size.
        let all: Vec<usize> =
            (0..1024).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &allowed) }).collect();
        // SAFETY: as above.
        let mut some: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let kept = self.rng.usize(..all.len());
        for (at, cpu) in all.iter().enumerate() {
            if at == kept || !self.tight || self.rng.bool() {
                // SAFETY: as above.
                unsafe { libc::CPU_SET(*cpu, &mut some) };
            }
        }
        for thread in thread_ids(self.child) {
            // SAFETY: a thread of the child, which was not waited for yet. If the thread has ended, the call fails.
            unsafe { libc::sched_setaffinity(thread, size, &raw const some) };
        }
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        if self.adversity == Adversity::Stops {
            self.signal(libc::SIGCONT);
        }
    }
}

/// Lets this process start this many more threads than it has now.
pub(crate) fn limit_threads(spare: u64) -> io::Result<()> {
    let now = threads(std::process::id() as libc::pid_t).unwrap_or(1);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the words are on this stack.
    let done = unsafe {
        libc::getrlimit(libc::RLIMIT_NPROC, &raw mut limit) == 0 && {
            limit.rlim_cur = (now + spare).min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit) == 0
        }
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a field of `/proc/PID/status`, up to its first blank.
fn status_word(process: libc::pid_t, field: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim_start_matches(':').split_whitespace().next().map(str::to_owned)
}

/// Reads a number from `/proc/PID/status`.
pub(crate) fn status_field(process: libc::pid_t, field: &str) -> Option<u64> {
    status_word(process, field)?.parse().ok()
}

/// True if a process has a handler for a signal.
fn catches(process: libc::pid_t, signal: libc::c_int) -> bool {
    let mask = status_word(process, "SigCgt");
    let mask = mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn threads(child: libc::pid_t) -> Option<u64> {
    status_field(child, "Threads")
}

/// The size of a child's address space in bytes.
fn address_space(child: libc::pid_t) -> Option<u64> {
    status_field(child, "VmSize").map(|kib| kib * 1024)
}

pub(crate) fn descriptors(child: libc::pid_t) -> Option<u64> {
    Some(std::fs::read_dir(format!("/proc/{child}/fd")).ok()?.count() as u64)
}

fn thread_ids(child: libc::pid_t) -> Vec<libc::pid_t> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{child}/task")) else { return Vec::new() };
    tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// A control group for one child, removed with this value.
struct ControlGroup(PathBuf);

impl ControlGroup {
    fn new() -> Result<Self> {
        let root = PathBuf::from("/sys/fs/cgroup");
        // Version 2, or version 1's hierarchy of this controller.
        let parent =
            if root.join("cgroup.controllers").exists() { root } else { root.join("pids") };
        let group = parent.join(format!("torture-{}-{:x}", std::process::id(), fastrand::u32(..)));
        std::fs::create_dir(&group)
            .with_context(|| format!("{} cannot be made", group.display()))?;
        let group = Self(group);
        if !group.0.join("pids.max").exists() {
            bail!("the controller pids is not enabled in {}", parent.display());
        }
        Ok(group)
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.0.join(file);
        std::fs::write(&path, value)
            .with_context(|| format!("{value:?} cannot be written to {}", path.display()))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The group is empty once the child was waited for; the kernel may take a moment.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

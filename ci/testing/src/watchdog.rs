//! The watchdog: a thread of each test process, which sleeps.
//!
//! The harness runs each test on a thread with the test's name, so a test that runs too long is a thread that has
//! existed for too long and has the name of a test. The test program lists the names (`--list`). The kernel keeps the
//! first 15 bytes of a thread's name, so a signal asks a hanging thread for its full name and its stack. A thread that
//! outlives the test that started it has another name, and is ignored.

use std::backtrace::Backtrace;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// The default time limit of a test.
const LIMIT: Duration = Duration::from_secs(300);

/// The environment variable with another limit: seconds, or 0 for no limit, as under a debugger.
pub(crate) const VARIABLE: &str = "CORESHARD_TEST_LIMIT";

/// How long hanging threads have to report their stacks.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// The exit status after a hang, as of timeout(1).
const STATUS: i32 = 124;

/// Bytes of a thread's name that the kernel keeps.
const KEPT: usize = 15;

/// Starts a watchdog for the tests of this program: `testing::watch!();` in the root of its source.
#[macro_export]
macro_rules! watch {
    () => {
        // The loader calls the functions in this section before main; the harness has no hook for it.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static WATCH_TESTS: extern "C" fn() = $crate::start;
    };
}

/// The time limit of each test of this process: 300 seconds, or `CORESHARD_TEST_LIMIT` seconds. `None` if that is 0, and
/// under a model checker, whose tests explore every interleaving.
///
/// # Panics
/// Panics if the variable is not a number.
#[must_use]
pub fn limit() -> Option<Duration> {
    let limit =
        match std::env::var(VARIABLE) {
            Ok(text) => {
                let seconds = text.parse();
                Duration::from_secs(seconds.unwrap_or_else(|_| {
                    panic!("{VARIABLE} is {text:?}, and not a number of seconds")
                }))
            }
            Err(_) if cfg!(loom) => Duration::ZERO,
            Err(_) => LIMIT,
        };
    (!limit.is_zero()).then_some(limit)
}

/// Starts the watchdog. [`watch!`] has the loader call it before main.
pub extern "C" fn start() {
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        if let Some(limit) = limit() {
            watch(limit);
        }
        ptr::null_mut()
    }
    // Not std::thread, which must not be used before main. A small stack, for tests that lock all memory.
    // SAFETY: plain calls with live arguments; the thread takes no argument.
    unsafe {
        let mut attributes = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, 256 << 10);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut thread = std::mem::zeroed();
        // If the thread cannot be started, the scripts' limits end tests that hang.
        libc::pthread_create(&raw mut thread, &raw const attributes, body, ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
    }
}

/// A thread: its id, and its start time in the kernel's units, since ids are reused.
type Thread = (libc::pid_t, u64);

fn watch(limit: Duration) -> ! {
    let mut seen: BTreeMap<Thread, Instant> = BTreeMap::new();
    loop {
        // Rarely, since some tests measure the resource usage of their process.
        thread::sleep(limit / 10);
        let now = Instant::now();
        let threads = threads();
        seen.retain(|thread, _| threads.contains_key(thread));
        let mut old = Vec::new();
        for (thread, name) in threads {
            if now - *seen.entry(thread).or_insert(now) >= limit {
                old.push((thread.0, name));
            }
        }
        if old.is_empty() {
            continue;
        }
        let late = late(&old, &tests());
        if !late.is_empty() {
            end(&late, limit);
        }
    }
}

/// The threads of this process, with their names as cut by the kernel.
fn threads() -> BTreeMap<Thread, String> {
    let folders = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let threads = folders.filter_map(|folder| {
        let id = folder.file_name().to_str()?.parse().ok()?;
        let stat = fs::read(folder.path().join("stat")).ok()?;
        let (name, started) = name_and_start(&String::from_utf8_lossy(&stat))?;
        Some(((id, started), name))
    });
    threads.collect()
}

/// The second and the 22nd field of a `stat` file, see proc(5).
fn name_and_start(stat: &str) -> Option<(String, u64)> {
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    Some((name.to_owned(), after.split_whitespace().nth(19)?.parse().ok()?))
}

/// The names of all tests of this program.
fn tests() -> BTreeSet<String> {
    let list = || {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg("--list").env(VARIABLE, "0").stdin(Stdio::null()).stderr(Stdio::null());
        String::from_utf8(command.output().ok()?.stdout).ok()
    };
    let listed = list().unwrap_or_default();
    listed.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect()
}

/// Returns the late threads that may be tests, each with the tests that it may be.
fn late(
    threads: &[(libc::pid_t, String)],
    tests: &BTreeSet<String>,
) -> Vec<(libc::pid_t, Vec<String>)> {
    let kept = |test: &String| test.as_bytes()[..test.len().min(KEPT)].to_owned();
    let may_be = |name: &str| -> Vec<String> {
        tests.iter().filter(|test| kept(test) == name.as_bytes()).cloned().collect()
    };
    let threads = threads.iter().map(|(id, name)| (*id, may_be(name)));
    threads.filter(|(_, tests)| !tests.is_empty()).collect()
}

/// The number of threads that have reported their stacks.
static TOLD: AtomicUsize = AtomicUsize::new(0);

fn end(late: &[(libc::pid_t, Vec<String>)], limit: Duration) -> ! {
    let program = std::env::current_exe().unwrap_or_default();
    for (_, tests) in late {
        let which = if tests.len() > 1 { "one of the tests" } else { "the test" };
        say(&format!(
            "\nHANGS: {which} {} has not finished after {limit:?}, so {} is ended\n",
            tests.join(", "),
            program.display()
        ));
    }
    let handler = tell as extern "C" fn(libc::c_int);
    // SAFETY: the handler is a function for the process's whole life; plain calls with live arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut());
        for (id, _) in late {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), *id, libc::SIGUSR2);
        }
    }
    // It may hang while it holds a lock that its report needs.
    let started = Instant::now();
    while TOLD.load(SeqCst) < late.len() && started.elapsed() < LAST_WORDS {
        thread::sleep(Duration::from_millis(10));
    }
    // Its child processes would live on, and keep the pipe open that this output is read from.
    let folders = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for children in folders.filter_map(|it| fs::read_to_string(it.path().join("children")).ok()) {
        for child in children.split_whitespace().filter_map(|id| id.parse().ok()) {
            // SAFETY: a plain call. A child that was not waited for yet keeps its id.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
    }
    // SAFETY: a plain call. Not exit(3), whose handlers may hang as well.
    unsafe { libc::_exit(STATUS) }
}

/// Runs on the hanging thread, at any place. The calls are not safe in a signal handler, but the process is about to end: at
/// worst, the report is missing.
extern "C" fn tell(_: libc::c_int) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("?");
    say(&format!("\nHANGS: {name} is here:\n{}\n", Backtrace::force_capture()));
    TOLD.fetch_add(1, SeqCst);
}

/// Writes past the harness, which captures a test's output, and past the standard library's lock.
pub(crate) fn say(text: &str) {
    // SAFETY: it is not closed here. If another thread has closed it, the write fails, or goes to its new file.
    let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
    let _ = stderr.write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_is_a_name() {
        let rest: Vec<String> = (4..=30).map(|field| field.to_string()).collect();
        let stat = format!("17 (a) (b c) S {}", rest.join(" "));
        assert_eq!(name_and_start(&stat), Some(("a) (b c".to_owned(), 22)));
        assert_eq!(name_and_start("17 (short) S 4"), None);
    }

    #[test]
    fn only_threads_that_are_tests_are_late() {
        let tests = ["short", "a_long_name_that_differs", "a_long_name_that_is_cut"];
        let tests = tests.map(str::to_owned).into();
        let threads =
            ["short", "shor", "main", "a_long_name_tha", "a_long_name_tha2", "cs-cache-0"];
        let threads: Vec<_> = (1..).zip(threads.map(str::to_owned)).collect();
        let late = late(&threads, &tests);
        assert_eq!(late[0], (1, vec!["short".to_owned()]));
        assert_eq!((late[1].0, late[1].1.len(), late.len()), (4, 2, 2));
    }

    #[test]
    fn the_harness_names_threads_by_their_tests() {
        let own = "watchdog::tests::the_harness_names_threads_by_their_tests";
        assert_eq!(thread::current().name(), Some(own));
        assert!(tests().contains(own));
        assert!(threads().values().any(|name| name == &own[..KEPT]));
    }
}

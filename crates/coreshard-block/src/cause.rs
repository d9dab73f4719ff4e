//! Explains why a file or a ring is unavailable. One errno can have several causes: a cause is reported only
//! if its facts could be read. Otherwise the plain error is reported.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Facts of this process and its kernel that decide whether it may use io_uring. `None` means that a fact
/// could not be read.
#[derive(Clone, Debug, Default)]
struct RingFacts {
    /// kernel.io_uring_disabled: 1 excludes all without CAP_SYS_ADMIN or the group, 2 excludes all.
    disabled: Option<u32>,
    is_admin: bool,
    is_filtered: bool,
    /// The soft limit on locked memory in bytes, if rings count as such. Then the limit on open files, and
    /// how many are open.
    locked_bytes: Option<u64>,
    files: Option<(u64, u64)>,
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Returns the first word after `key` at the beginning of a line.
fn word<'text>(text: &'text str, key: &str) -> Option<&'text str> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()
}

const CAP_SYS_ADMIN: u32 = 21;

/// Returns whether the kernel counts rings as locked memory, as kernels before Linux 5.12 do.
fn charges_rings() -> bool {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version < (5, 12))
}

impl RingFacts {
    fn here() -> Self {
        let status = read("/proc/thread-self/status").unwrap_or_default();
        let limits = read("/proc/self/limits").unwrap_or_default();
        let limit = |key| word(&limits, key)?.parse().ok();
        let open = std::fs::read_dir("/proc/self/fd").map(|files| files.count() as u64);
        Self {
            disabled: read("/proc/sys/kernel/io_uring_disabled")
                .and_then(|text| text.trim().parse().ok()),
            is_admin: word(&status, "CapEff:")
                .and_then(|set| u64::from_str_radix(set, 16).ok())
                .is_some_and(|set| set >> CAP_SYS_ADMIN & 1 == 1),
            is_filtered: word(&status, "Seccomp:") == Some("2"),
            locked_bytes: limit("Max locked memory").filter(|_| charges_rings()),
            files: limit("Max open files").zip(open.ok()),
        }
    }
}

/// Explains why io_uring is unavailable.
pub(crate) fn of_ring(errno: Option<i32>) -> Option<String> {
    ring_cause(errno?, &RingFacts::here())
}

fn ring_cause(errno: i32, facts: &RingFacts) -> Option<String> {
    let disabled = facts.disabled.filter(|disabled| *disabled == 2 || !facts.is_admin);
    match (errno, disabled, facts.files) {
        (libc::EPERM, Some(2), _) => {
            return Some(
                "kernel.io_uring_disabled is 2, which forbids io_uring to all; 0 allows it"
                    .to_owned(),
            );
        }
        (libc::EPERM, Some(1), _) => {
            return Some(
                "kernel.io_uring_disabled is 1, which allows io_uring only to CAP_SYS_ADMIN and to the group \
                 kernel.io_uring_group; 0 allows it to all"
                    .to_owned(),
            );
        }
        // This check itself has one file open.
        (libc::EMFILE, _, Some((limit, open))) if open + 1 >= limit => {
            return Some(format!(
                "RLIMIT_NOFILE is {limit}, and {open} files are open (ulimit -n)"
            ));
        }
        _ => {}
    }
    // A filter may return any errno.
    if facts.is_filtered {
        return Some(
            "a seccomp filter is in force, as in many containers; a profile that allows io_uring_setup, \
             io_uring_enter and io_uring_register is needed"
                .to_owned(),
        );
    }
    match (errno, facts.locked_bytes) {
        (libc::ENOMEM, Some(limit)) => Some(format!(
            "RLIMIT_MEMLOCK is {limit} bytes (ulimit -l); fewer requests in flight need less"
        )),
        _ => None,
    }
}

/// How a file was to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) writing: bool,
    pub(crate) direct: bool,
    /// Exclusively, which the kernel supports for block devices.
    pub(crate) takes: bool,
}

/// Explains why `path` cannot be opened, and what helps.
pub(crate) fn of_opening(path: &Path, error: &io::Error, opening: Opening) -> Option<String> {
    let found = path.metadata();
    let errno = error.raw_os_error()?;
    match (errno, found) {
        (libc::ENOENT, Err(_)) if path.is_symlink() => {
            Some("it is a link whose target does not exist".to_owned())
        }
        (libc::ENOENT, Err(_)) if path.starts_with("/dev") => {
            Some("expected an existing device (lsblk lists them)".to_owned())
        }
        (libc::ENOENT, Err(_)) => Some(match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
                "its folder does not exist either".to_owned()
            }
            _ => "create it, or give a size".to_owned(),
        }),
        // open(2) documents no other reason for EBUSY on an exclusive open of a device.
        (libc::EBUSY, Ok(found)) if opening.takes && found.file_type().is_block_device() => Some(
            "it is mounted, here or in another namespace, or in use by another program; give another one"
                .to_owned(),
        ),
        (libc::EACCES, Ok(found)) => rights(&found, opening.writing),
        (libc::EINVAL, Ok(_)) if opening.direct => {
            // If the file opens without the flag, the flag is the cause.
            let plain = File::options().read(true).write(opening.writing).open(path);
            plain.is_ok().then(|| "its file system has no direct I/O: do without (direct=0)".to_owned())
        }
        (_, Ok(found)) if !found.is_file() && !found.file_type().is_block_device() => {
            Some("it is neither a file nor a block device".to_owned())
        }
        _ => None,
    }
}

/// Describes the file's owner and mode, if they do not permit this user to open it.
fn rights(found: &Metadata, writing: bool) -> Option<String> {
    let status = read("/proc/thread-self/status")?;
    let user = word(&status, "Uid:")?;
    let wants = if writing { "reading and writing" } else { "reading" };
    Some(format!(
        "this process is of user {user}, and the file of user {} and group {} with mode {:o}; {wants} must be allowed",
        found.uid(),
        found.gid(),
        found.mode() & 0o7777
    ))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ring_s_cause_is_named_if_its_facts_are_there() {
        let free = RingFacts {
            disabled: Some(0),
            is_admin: false,
            is_filtered: false,
            locked_bytes: None,
            files: Some((1024, 10)),
        };
        let filtered = RingFacts { is_filtered: true, ..free.clone() };
        let disabled = RingFacts { disabled: Some(2), ..filtered.clone() };
        let grouped = RingFacts { disabled: Some(1), ..free.clone() };
        let admin = RingFacts { is_admin: true, ..grouped.clone() };
        let full = RingFacts { files: Some((64, 63)), ..free.clone() };
        let locked = RingFacts { locked_bytes: Some(65_536), ..free.clone() };
        for (errno, facts, says) in [
            (libc::EPERM, &disabled, Some("io_uring_disabled is 2")),
            (libc::EPERM, &grouped, Some("io_uring_disabled is 1")),
            (libc::EPERM, &filtered, Some("seccomp filter")),
            (libc::ENOSYS, &filtered, Some("seccomp filter")),
            (libc::ENOSYS, &disabled, Some("seccomp filter")),
            (libc::EMFILE, &full, Some("RLIMIT_NOFILE is 64, and 63 files")),
            (libc::ENOMEM, &locked, Some("RLIMIT_MEMLOCK is 65536 bytes")),
            (libc::EPERM, &free, None),
            (libc::EPERM, &admin, None),
            (libc::ENOSYS, &free, None),
            (libc::EMFILE, &free, None),
            (libc::ENOMEM, &free, None),
            (libc::ENFILE, &full, None),
        ] {
            let cause = ring_cause(errno, facts);
            let matches = match says {
                Some(says) => cause.as_ref().is_some_and(|cause| cause.contains(says)),
                None => cause.is_none(),
            };
            assert!(matches, "{errno} {facts:?}: {cause:?}");
        }
    }

    #[test]
    fn what_is_said_of_a_file_was_looked_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let plain = Opening { writing: false, direct: false, takes: false };
        let direct = Opening { direct: true, ..plain };
        let takes = Opening { takes: true, ..plain };
        for (path, errno, opening, says) in [
            (folder.path().join("no"), libc::ENOENT, plain, Some("create it")),
            (folder.path().join("no/no"), libc::ENOENT, plain, Some("its folder does not exist")),
            (link, libc::ENOENT, plain, Some("a link whose target does not exist")),
            (file.clone(), libc::EACCES, plain, Some("with mode 6")),
            (file.clone(), libc::EINVAL, direct, Some("no direct I/O")),
            ("/dev/null".into(), libc::EINVAL, plain, Some("neither a file nor a block device")),
            // Not a device, not opened directly, or refused for other reasons.
            (file.clone(), libc::EBUSY, takes, None),
            (file.clone(), libc::EINVAL, plain, None),
            (file.clone(), libc::EPERM, plain, None),
            (file, libc::EIO, direct, None),
        ] {
            let cause = of_opening(&path, &io::Error::from_raw_os_error(errno), opening);
            let matches = match says {
                Some(says) => cause.as_ref().is_some_and(|cause| cause.contains(says)),
                None => cause.is_none(),
            };
            assert!(matches, "{} {errno}: {cause:?}", path.display());
        }
    }
}

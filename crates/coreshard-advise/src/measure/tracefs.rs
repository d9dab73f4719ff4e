//! Reads workqueue events from a tracefs instance for a while.
//!
//! This usually needs root. The instance is removed on exit. If the process is killed, `rmdir
//! /sys/kernel/tracing/instances/coreshard-advise-PID` removes it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coreshard_topology::{Topology, input};

use super::tally::{Measured, Tally};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Interval between reads.
const PAUSE: Duration = Duration::from_millis(20);
/// Buffer size per CPU: about 20,000 events.
const BUFFER_KIB: &str = "1408";
/// Maximum length of a line. No event is longer.
const LONGEST_LINE: usize = 1 << 16;
/// Linux, include/uapi/asm-generic/fcntl.h.
const O_NONBLOCK: i32 = 0o4000;

/// Measures the workqueues of this machine for a time, or until `stop` returns true. Items that take longer than
/// `hog_us` microseconds count as hogs.
///
/// # Errors
///
/// If tracefs is not mounted, lacks the events, or may not be used. The message says which, and what to do.
pub fn measure(
    topology: &Topology,
    time: Duration,
    hog_us: u64,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Measured, MeasureError> {
    let place = PLACES.into_iter().map(Path::new).find(|it| it.join("instances").is_dir());
    let instance = Instance::new(place.ok_or_else(MeasureError::no_tracefs)?)?;
    let mut tally = Tally::new(topology, hog_us);
    let mut pipe = instance.start()?;
    let began = Instant::now();
    let mut lines = Lines::default();
    let mut is_last = false;
    loop {
        lines
            .read(&mut pipe, |line| tally.line(line))
            .map_err(|error| MeasureError::io(&instance.folder, &error))?;
        if is_last {
            break;
        }
        is_last = began.elapsed() >= time || stop();
        if is_last {
            // Read the remaining events.
            instance.write("tracing_on", "0")?;
        } else {
            std::thread::sleep(PAUSE.min(time.saturating_sub(began.elapsed())));
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(tally.finish(seconds))
}

/// A tracefs instance with its own buffers, removed on drop.
#[derive(Debug)]
struct Instance {
    folder: PathBuf,
}

impl Instance {
    fn new(tracefs: &Path) -> Result<Self, MeasureError> {
        if !tracefs.join("events/workqueue").is_dir() {
            return Err(MeasureError::no_events(tracefs));
        }
        let folder = tracefs.join(format!("instances/coreshard-advise-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| MeasureError::io(&folder, &error))?;
        Ok(Self { folder })
    }

    fn write(&self, file: &str, value: &str) -> Result<(), MeasureError> {
        let path = self.folder.join(file);
        fs::write(&path, value).map_err(|error| MeasureError::io(&path, &error))
    }

    /// Enables the events and opens the trace.
    fn start(&self) -> Result<File, MeasureError> {
        use std::os::unix::fs::OpenOptionsExt;
        self.write("buffer_size_kb", BUFFER_KIB)?;
        // Use one clock for all CPUs: the default one may differ between them.
        self.write("trace_clock", "mono")?;
        let path = self.folder.join("trace_pipe");
        let pipe = File::options().read(true).custom_flags(O_NONBLOCK).open(&path);
        let pipe = pipe.map_err(|error| MeasureError::io(&path, &error))?;
        for event in ["queue_work", "execute_start", "execute_end"] {
            self.write(&format!("events/workqueue/workqueue_{event}/enable"), "1")?;
        }
        Ok(pipe)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A failure cannot be reported here; the instance has no effect on anything else.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Splits a stream into lines.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Reads all available data.
    fn read(&mut self, from: &mut impl Read, mut line: impl FnMut(&str)) -> io::Result<()> {
        let mut part = [0; 1 << 14];
        loop {
            let read = match from.read(&mut part) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for byte in &part[..read] {
                if *byte == b'\n' {
                    line(&String::from_utf8_lossy(&self.rest));
                    self.rest.clear();
                } else if self.rest.len() < LONGEST_LINE {
                    self.rest.push(*byte);
                }
            }
        }
    }
}

/// Returns where tracefs is mounted.
fn mounted_at() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, place, "tracefs", ..] = fields[..] else { return None };
        Some(PathBuf::from(place))
    })
}

/// Returns the effective user's number, unless it is root.
fn user() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1).filter(|user| *user != "0").map(str::to_owned)
}

/// Why a measurement failed.
pub struct MeasureError(String);

impl MeasureError {
    fn no_tracefs() -> Self {
        Self(match mounted_at() {
            None => "tracefs is not mounted: as root, mount -t tracefs tracefs /sys/kernel/tracing"
                .to_owned(),
            // A folder without read permission appears to be empty.
            Some(place) => format!(
                "tracefs is mounted at {}, but this process cannot read its instances: run as root",
                input::path(&place)
            ),
        })
    }

    fn no_events(tracefs: &Path) -> Self {
        let tracefs = input::path(tracefs);
        Self(format!("{tracefs} has no workqueue events: this kernel was built without them"))
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        let mut text = format!("cannot use {}: {error}", input::path(path));
        if let (ErrorKind::PermissionDenied, Some(user)) = (error.kind(), user()) {
            text += &format!(" (user {user}): run as root");
        }
        Self(text)
    }
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

coreshard_topology::readable_debug!(MeasureError);

impl std::error::Error for MeasureError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parted_however_they_come() {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for part in [&b"one\ntw"[..], b"o\n", b"\xff\nrest"] {
            lines.read(&mut &*part, |line| found.push(line.to_owned())).unwrap();
        }
        assert_eq!(found, ["one", "two", "\u{fffd}"]);
        lines.read(&mut std::io::repeat(b'x').take(1 << 18), |_| ()).unwrap();
        assert_eq!(lines.rest.len(), LONGEST_LINE);
    }

    #[test]
    fn a_folder_that_is_no_tracefs_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let error = Instance::new(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no workqueue events"), "{error}");
        fs::create_dir_all(folder.path().join("events/workqueue")).unwrap();
        let error = Instance::new(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("cannot use") && error.contains("instances/coreshard-advise-"),
            "{error}"
        );
        // A failed start leaves no instance behind.
        fs::create_dir_all(folder.path().join("instances")).unwrap();
        let instance = Instance::new(folder.path()).unwrap();
        fs::create_dir(instance.folder.join("buffer_size_kb")).unwrap();
        assert!(instance.start().unwrap_err().to_string().contains("buffer_size_kb"));
        fs::remove_dir(instance.folder.join("buffer_size_kb")).unwrap();
        let its = instance.folder.clone();
        drop(instance);
        assert!(!its.exists());
    }
}

//! Keeping CPUs out of deep idle states while wake-ups are measured, as cyclictest does.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// While the file is open, no CPU enters a state that takes longer than 0 µs to leave (Linux,
/// Documentation/power/pm_qos_interface.rst). `None` where that is not granted, which then shows in the
/// figures as it does in everybody's.
pub(super) fn hold() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    file.write_all(&0_i32.to_ne_bytes()).ok()?;
    Some(file)
}

//! The machine that the figures come from.

use std::fs;

fn first_value(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Describes in one line the processor, the CPUs used, memory and kernel.
pub(crate) fn describe(cpus: &[usize]) -> String {
    let unknown = || "unknown".to_owned();
    let model = first_value("/proc/cpuinfo", "model name").unwrap_or_else(unknown);
    let flags = first_value("/proc/cpuinfo", "flags").unwrap_or_default();
    let virtualised = if flags.contains("hypervisor") { " (a virtual machine)" } else { "" };
    let memory = first_value("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok())
        .map_or_else(unknown, |kib| format!("{:.0} GiB", kib / 1024.0 / 1024.0));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| unknown());
    let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
    let plural = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    let (list, kernel) = (list.join(","), kernel.trim());
    format!("{model}{virtualised}, {plural} {list}, {memory}, Linux {kernel}")
}

/// The load averages over 1, 5 and 15 minutes, as the kernel prints them.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// Notes for the reader.
pub(crate) fn notes(load_before: &str, load_after: &str) -> Vec<String> {
    vec![
        format!("Load averages were {load_before} before and {load_after} after."),
        format!(
            "Rust peers allocate from {}.",
            if cfg!(feature = "mimalloc") { "mimalloc" } else { "the system's allocator" }
        ),
    ]
}

//! The machine as text.

use std::collections::BTreeSet;
use std::fmt::Write;

use coreshard_topology::{CpuKind, LlcId, Pods, Usable};

use super::view::View;
use crate::common::counted;

/// Formats the table for this many columns.
pub(super) fn render(view: &View, columns: usize) -> String {
    let mut text = format!("{}\n\n", view.title());
    summary(view, &mut text);
    scopes(view, &mut text);
    shards(view, &mut text);
    if !view.notes.is_empty() {
        text.push('\n');
    }
    for note in &view.notes {
        row(&mut text, &format!("note: {note}"));
    }
    text.lines().flat_map(|line| folded(line, columns)).map(|line| line + "\n").collect()
}

/// Adds a line.
fn row(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Wraps a line after spaces and the commas of lists. Continuation lines start below the last column, which follows the
/// last wide gap.
fn folded(line: &str, columns: usize) -> Vec<String> {
    let gap = line.rfind("  ").map_or(0, |at| at + 2);
    let indent = if gap > 0 { line[..gap].chars().count() } else { 2 };
    let indent = " ".repeat(indent.min(columns / 2));
    let mut lines = vec![String::new()];
    for piece in line.split_inclusive([' ', ',']) {
        let last = lines.last_mut().expect("there is always one");
        let width = last.chars().count() + piece.trim_end().chars().count();
        if width > columns && !last.trim().is_empty() {
            lines.push(indent.clone());
        }
        lines.last_mut().expect("there is always one").push_str(piece);
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

fn summary(view: &View, text: &mut String) {
    let topology = view.topology();
    let mut line = |name: &str, value: &str| row(text, &format!("  {name:<9} {value}"));
    let whole = &view.machine.whole;
    line("packages", &part(topology.packages(), whole.packages()));
    let memory_only = match topology.memory_only_nodes() {
        [] => String::new(),
        nodes => format!(", and {} with memory only", nodes.len()),
    };
    let nodes = match topology.nodes() {
        0 => "unknown".to_owned(),
        nodes => part(nodes, whole.nodes()),
    };
    line("nodes", &format!("{nodes}{memory_only}"));
    line("LLCs", &format!("{}{}", part(topology.llcs(), whole.llcs()), cache_kinds(view)));
    line("cores", &part(topology.cores(), whole.cores()));
    let per_core = topology.cpus().len() as f64 / topology.cores() as f64;
    let per_core = if per_core.fract() == 0.0 {
        format!("{per_core:.0}")
    } else {
        format!("{per_core:.1} on average")
    };
    let cpus = part(topology.cpus().len(), whole.cpus().len());
    line("CPUs", &format!("{cpus} ({per_core} per core): {}", topology.online()));
    let kinds = [(CpuKind::Performance, "performance"), (CpuKind::Efficiency, "efficiency")];
    let kinds = kinds.map(|(kind, word)| (view.cpus_of_kind(kind), word));
    let known: Vec<String> = kinds
        .iter()
        .filter(|(cpus, _)| !cpus.is_empty())
        .map(|(cpus, word)| format!("{} {word}: {cpus}", cpus.len()))
        .collect();
    if !known.is_empty() {
        line("kinds", &known.join("; "));
    }
    if !topology.offline().is_empty() {
        line("offline", &topology.offline().to_string());
    }
    if let Some(usable) = &view.machine.usable {
        line("usable", &limits(usable));
        let workers = counted(usable.worker_limit(), "worker");
        line("workers", &format!("at most {workers} running at once"));
    }
}

/// Formats `6 of 32`, or one number if they are equal.
fn part(usable: usize, whole: usize) -> String {
    if usable == whole { whole.to_string() } else { format!("{usable} of {whole}") }
}

/// Formats ` (L3, 32 MiB)`, with all kinds of caches.
fn cache_kinds(view: &View) -> String {
    let topology = view.topology();
    let all = (0..).map(LlcId).map_while(|id| topology.llc(id));
    let kinds: BTreeSet<String> = all.map(|llc| cache_kind(llc.level, llc.size_bytes)).collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    format!(" ({})", kinds.join("; "))
}

/// `L3, 32 MiB`
fn cache_kind(level: Option<u32>, size_bytes: Option<u64>) -> String {
    let Some(level) = level else { return "unknown, by package".to_owned() };
    match size_bytes {
        Some(bytes) => format!("L{level}, {}", size(bytes)),
        None => format!("L{level}"),
    }
}

/// Formats bytes in the largest unit with at least 1.
pub(super) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) if bytes.is_multiple_of(1 << shift) => {
            format!("{} {unit}", bytes >> shift)
        }
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

/// Formats `1 of 2 CPUs online: 0 (online 0-1, affinity 0, cgroup cpuset 0-1, CPU quota 0.5)`.
fn limits(usable: &Usable) -> String {
    let mut parts = vec![format!("online {}", usable.online())];
    match usable.affinity() {
        Some(mask) => parts.push(format!("affinity {mask}")),
        None => parts.push("affinity unknown".to_owned()),
    }
    match usable.cpusets() {
        [] => parts.push("no cgroup cpuset".to_owned()),
        sets => parts.extend(sets.iter().map(|set| format!("cgroup cpuset {}", set.cpus))),
    }
    match usable.quota() {
        None => parts.push("no CPU quota".to_owned()),
        Some(quota) => {
            parts.push(format!("CPU quota {} by {}", quota.cpus, quota.file.display()));
        }
    }
    let online = counted(usable.online().len(), "CPU");
    format!("{} of {online} online: {} ({})", usable.cpus().len(), usable.cpus(), parts.join(", "))
}

fn scopes(view: &View, text: &mut String) {
    text.push('\n');
    row(
        text,
        &format!("{:<12} {:>6}  {:<14} {}", "scope", "pods", "CPUs per pod", "cores per pod"),
    );
    for pods in &view.scopes {
        let cpus = range(pods.iter().map(|pod| pod.cpus.len()));
        let cores = range(pods.iter().map(|pod| pod.cores));
        row(text, &format!("{:<12} {:>6}  {cpus:<14} {cores}", pods.scope().name(), pods.len()));
    }
}

/// Formats `8`, or `7 to 8`.
fn range(numbers: impl Iterator<Item = usize> + Clone) -> String {
    let (least, most) = (numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0));
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

fn shards(view: &View, text: &mut String) {
    let shards: &Pods = view.shards();
    text.push('\n');
    row(text, &format!("cache shards of about {}:", counted(view.shard_size.cores(), "core")));
    row(text, &format!("{:>7} {:>5} {:>5} {:>6}  {}", "shard", "LLC", "node", "cores", "CPUs"));
    for shard in shards {
        let llc = shard.cpus.first().and_then(|cpu| view.topology().cpu(cpu)).map(|cpu| cpu.llc);
        let llc = llc.map_or_else(String::new, |llc| llc.to_string());
        let node = shard.node.map_or_else(|| "-".to_owned(), |node| node.to_string());
        let mut line = String::new();
        let _ =
            write!(line, "{:>7} {llc:>5} {node:>5} {:>6}  {}", shard.id, shard.cores, shard.cpus);
        row(text, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_in_the_largest_unit() {
        assert_eq!(size(512), "512 B");
        assert_eq!(size(32 << 20), "32 MiB");
        assert_eq!(size(1280 << 10), "1.2 MiB");
        assert_eq!(size(1 << 30), "1 GiB");
    }

    #[test]
    fn a_long_line_goes_on_below_its_last_column() {
        let line = "  CPUs      480 (2 per core): 0-2,4-6,8-10,12-14,16-18";
        let expected = ["  CPUs      480 (2 per core): 0-2,", "            4-6,8-10,12-14,16-18"];
        assert_eq!(folded(line, 34), expected);
        assert_eq!(folded(line, 80), [line]);
        assert_eq!(folded("", 80), [""]);
        let note = "note: a machine that is not known yet";
        assert_eq!(folded(note, 20), ["note: a machine that", "  is not known yet"]);
    }

    #[test]
    fn ranges_collapse_when_equal() {
        assert_eq!(range([8, 8].into_iter()), "8");
        assert_eq!(range([8, 7].into_iter()), "7 to 8");
    }
}

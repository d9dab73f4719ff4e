//! Findings in the forms that machines are set by: each is text for a file or a shell, and sets what
//! [`Verdict::Change`] asks for; what [`Verdict::Consider`] names stands there as a comment.

use std::fmt::Write as _;

use coreshard_topology::Scope;

use crate::rules::{Finding, Setting, Verdict};

/// Of a line of a program.
const MOST_COLUMNS: usize = 100;
const NOTHING: &str = "# Nothing to change: leave it.\n";

/// The settings of findings: those to be made, and those to be thought about.
fn settings(findings: &[Finding]) -> impl Iterator<Item = (&Finding, &Setting, bool)> {
    let pairs =
        findings.iter().flat_map(|finding| finding.settings.iter().map(move |it| (finding, it)));
    let pairs = pairs.filter(|(finding, _)| finding.verdict != Verdict::Leave);
    pairs.map(|(finding, setting)| (finding, setting, finding.verdict == Verdict::Change))
}

fn mark(is_set: bool) -> &'static str {
    if is_set { "" } else { "# consider: " }
}

/// A word as a POSIX shell takes it.
fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=@%+".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Lines for a shell of root's, in force until the next start, each with the line that undoes it.
///
/// ```
/// use coreshard_advise::{Facts, KernelVersion, emit, judge};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
/// let mut facts = Facts::assumed(machine, KernelVersion::new(7, 1));
/// facts.workqueues.default_scope = Some("cache".parse()?);
/// let lines = emit::sysfs(&judge(&facts, None));
/// assert!(lines.contains("echo cache_shard > /sys/module/workqueue/parameters/default_affinity_scope"));
/// assert!(lines.contains("# undo: echo cache > /sys/module/workqueue/parameters/default_affinity_scope"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn sysfs(findings: &[Finding]) -> String {
    let mut text = String::new();
    for (finding, setting, is_set) in settings(findings) {
        if let (true, Some(boot)) = (setting.is_boot_only, &setting.boot) {
            let _ = writeln!(text, "# {}: at boot alone: {boot}", finding.rule.id);
            continue;
        }
        let path = shell_word(&setting.path);
        let line = format!("echo {} > {path}", shell_word(&setting.to));
        let _ = writeln!(text, "# {}: {}", finding.rule.id, finding.subject);
        let _ = writeln!(text, "{}{line}", mark(is_set));
        if let Some(now) = &setting.now {
            let _ = writeln!(text, "# undo: echo {} > {path}", shell_word(now));
        }
    }
    or_nothing(text)
}

/// Parameters for the kernel's command line, in force from the next start on.
///
/// ```
/// use coreshard_advise::{Facts, KernelVersion, emit, judge};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
/// let mut facts = Facts::assumed(machine, KernelVersion::new(7, 1));
/// assert_eq!(emit::boot_parameters(&judge(&facts, None)), "# Nothing to change: leave it.\n");
/// facts.workqueues.default_scope = Some("cache".parse()?);
/// let line = emit::boot_parameters(&judge(&facts, None));
/// assert_eq!(line, "workqueue.default_affinity_scope=cache_shard\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn boot_parameters(findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut line = Vec::new();
    for (finding, setting, is_set) in settings(findings) {
        match (&setting.boot, is_set) {
            (Some(boot), true) => line.push(boot.clone()),
            (Some(boot), false) => {
                let _ = writeln!(text, "# consider: {boot}");
            }
            (None, _) => {
                let _ = writeln!(
                    text,
                    "# no parameter sets this: {}: {}",
                    finding.rule.id, finding.subject
                );
            }
        }
    }
    if !line.is_empty() {
        let _ = writeln!(text, "{}", line.join(" "));
    }
    or_nothing(text)
}

/// A profile for tuned: `/etc/tuned/profiles/coreshard/tuned.conf` (`/etc/tuned/coreshard/tuned.conf` of older ones).
///
/// ```
/// use coreshard_advise::{Facts, KernelVersion, emit, judge};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
/// let mut facts = Facts::assumed(machine, KernelVersion::new(7, 1));
/// facts.workqueues.default_scope = Some("cache".parse()?);
/// let profile = emit::tuned(&judge(&facts, None));
/// assert!(profile.contains("[sysfs]\n/sys/module/workqueue/parameters/default_affinity_scope=cache_shard\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn tuned(findings: &[Finding]) -> String {
    let (mut sysfs, mut sysctl, mut others) = (String::new(), String::new(), String::new());
    let mut bootloader = String::new();
    for (finding, setting, is_set) in settings(findings) {
        // In a name, tuned takes these for patterns, and a sign of equality for the end.
        let is_plain = !setting.path.contains(['*', '?', '[', ']', '=', '$', '{', '#', ';']);
        let mark = mark(is_set);
        if let (true, Some(boot)) = (setting.is_boot_only, &setting.boot) {
            let _ = writeln!(bootloader, "{mark}cmdline_coreshard=+{boot}");
        } else if let (Some(name), true) = (setting.path.strip_prefix("/proc/sys/"), is_plain) {
            let _ = writeln!(sysctl, "{mark}{}={}", name.replace('/', "."), setting.to);
        } else if setting.path.starts_with("/sys/") && is_plain {
            let _ = writeln!(sysfs, "{mark}{}={}", setting.path, setting.to);
        } else {
            let _ = writeln!(
                others,
                "# tuned has no way to set this: {}: {}",
                finding.rule.id, finding.subject
            );
        }
    }
    if [&sysfs, &sysctl, &bootloader, &others].iter().all(|lines| lines.is_empty()) {
        return NOTHING.to_owned();
    }
    let mut text = "[main]\nsummary=What coreshard advise found for this machine\n".to_owned();
    for (section, lines) in [("sysfs", sysfs), ("sysctl", sysctl), ("bootloader", bootloader)] {
        if !lines.is_empty() {
            let _ = write!(text, "\n[{section}]\n{lines}");
        }
    }
    text + &others
}

/// Rules for udev, such as `/etc/udev/rules.d/60-coreshard.rules`: what belongs to devices, when they come.
///
/// ```
/// use coreshard_advise::{Facts, KernelVersion, emit, judge};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
/// let facts = Facts::assumed(machine, KernelVersion::new(7, 1));
/// assert_eq!(emit::udev(&judge(&facts, None)), "# Nothing to change: leave it.\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn udev(findings: &[Finding]) -> String {
    let mut text = String::new();
    for (finding, setting, is_set) in settings(findings) {
        let rule = udev_match(&setting.path).filter(|_| !setting.to.contains('"'));
        let Some((subsystem, device, attribute)) = rule else {
            let _ =
                writeln!(text, "# no device's attribute: {}: {}", finding.rule.id, finding.subject);
            continue;
        };
        let _ = writeln!(
            text,
            "{}ACTION==\"add|change\", SUBSYSTEM==\"{subsystem}\", KERNEL==\"{device}\", ATTR{{{attribute}}}=\"{}\"",
            mark(is_set),
            setting.to
        );
    }
    or_nothing(text)
}

fn udev_match(path: &str) -> Option<(&'static str, &str, &str)> {
    let places = [
        ("block", "/sys/block/"),
        ("workqueue", "/sys/devices/virtual/workqueue/"),
        ("net", "/sys/class/net/"),
    ];
    let (subsystem, rest) = places
        .into_iter()
        .find_map(|(subsystem, place)| Some((subsystem, path.strip_prefix(place)?)))?;
    let (device, attribute) = rest.split_once('/')?;
    // udev takes these in a name for patterns or for the end of it.
    let is_plain = !device.contains(['"', '*', '?', '[', '|', '\\', '{', '}']);
    is_plain.then_some((subsystem, device, attribute))
}

/// The lines that a program which links Coreshard writes to have queues of such pools, with the reason above them.
///
/// ```
/// use coreshard_advise::emit;
/// use coreshard_topology::Scope;
///
/// let lines = emit::builder(Scope::CacheShard, Some(16), "as simulated");
/// assert!(lines.starts_with("// as simulated\n"));
/// assert!(lines.ends_with(".scope(Scope::CacheShard).shard_size(16).build()?;\n"));
/// ```
#[must_use]
pub fn builder(scope: Scope, shard_cores: Option<usize>, reason: &str) -> String {
    let mut text = String::new();
    let mut line = String::from("//");
    for word in reason.split_whitespace() {
        if line.chars().count() + word.chars().count() >= MOST_COLUMNS {
            let _ = writeln!(text, "{line}");
            line = String::from("//");
        }
        line.push(' ');
        line.push_str(word);
    }
    let shard = shard_cores.map_or_else(String::new, |cores| format!(".shard_size({cores})"));
    text + &format!(
        "{line}\nuse coreshard::Scope;\n\n\
         let queue = coreshard::workqueue()?.scope(Scope::{scope:?}){shard}.build()?;\n"
    )
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

//! Findings as configuration: text for a file or a shell that applies each [`Verdict::Change`]. Settings of
//! [`Verdict::Consider`] are comments.

use std::fmt::Write as _;

use coreshard_topology::Scope;

use crate::rules::{Finding, Setting, Verdict};

/// Width of generated program lines.
const MOST_COLUMNS: usize = 100;
const NOTHING: &str = "# Nothing to change.\n";

/// Returns the settings of findings: those to change and those to consider.
fn settings(findings: &[Finding]) -> impl Iterator<Item = (&Finding, &Setting, bool)> {
    let pairs =
        findings.iter().flat_map(|finding| finding.settings.iter().map(move |it| (finding, it)));
    let pairs = pairs.filter(|(finding, _)| finding.verdict != Verdict::Leave);
    pairs.map(|(finding, setting)| (finding, setting, finding.verdict == Verdict::Change))
}

fn mark(is_set: bool) -> &'static str {
    if is_set { "" } else { "# consider: " }
}

/// Quotes a word for a POSIX shell.
fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=@%+".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Returns shell commands for root, valid until reboot, each with the command that undoes it.
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
            let _ = writeln!(text, "# {} (only at boot): {boot}", finding.rule.id);
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

/// Returns parameters for the kernel command line, valid from the next boot.
///
/// ```
/// use coreshard_advise::{Facts, KernelVersion, emit, judge};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
/// let mut facts = Facts::assumed(machine, KernelVersion::new(7, 1));
/// assert_eq!(emit::boot_parameters(&judge(&facts, None)), "# Nothing to change.\n");
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
                    "# no boot parameter for {}: {}",
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

/// Returns a profile for tuned: `/etc/tuned/profiles/coreshard/tuned.conf` (older versions:
/// `/etc/tuned/coreshard/tuned.conf`).
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
            let _ = writeln!(others, "# tuned cannot set {}: {}", finding.rule.id, finding.subject);
        }
    }
    if [&sysfs, &sysctl, &bootloader, &others].iter().all(|lines| lines.is_empty()) {
        return NOTHING.to_owned();
    }
    let mut text = "[main]\nsummary=Settings recommended by coreshard advise\n".to_owned();
    for (section, lines) in [("sysfs", sysfs), ("sysctl", sysctl), ("bootloader", bootloader)] {
        if !lines.is_empty() {
            let _ = write!(text, "\n[{section}]\n{lines}");
        }
    }
    text + &others
}

/// Returns rules for udev, such as `/etc/udev/rules.d/60-coreshard.rules`: device attributes, set when a device
/// appears.
///
/// ```
/// use coreshard_advise::{Facts, KernelVersion, emit, judge};
/// use coreshard_topology::Topology;
///
/// let machine = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
/// let facts = Facts::assumed(machine, KernelVersion::new(7, 1));
/// assert_eq!(emit::udev(&judge(&facts, None)), "# Nothing to change.\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn udev(findings: &[Finding]) -> String {
    let mut text = String::new();
    for (finding, setting, is_set) in settings(findings) {
        let rule = udev_match(&setting.path).filter(|_| !setting.to.contains('"'));
        let Some((subsystem, device, attribute)) = rule else {
            let _ = writeln!(
                text,
                "# not a device attribute: {}: {}",
                finding.rule.id, finding.subject
            );
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
    // Characters with a meaning in udev patterns.
    let is_plain = !device.contains(['"', '*', '?', '[', '|', '\\', '{', '}']);
    is_plain.then_some((subsystem, device, attribute))
}

/// Returns the builder calls for a program that links Coreshard, with the reason as a comment.
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

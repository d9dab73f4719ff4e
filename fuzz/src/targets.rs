//! One function for each parser. It takes any bytes, and panics if the parser breaks a promise.
//!
//! The promises: no input makes a parser panic, hang or use much memory. libFuzzer's limits, and a watchdog in the
//! workspace's test, check the latter two. A parsed value can be written and parsed again. An error is a short text
//! without terminal control characters.
//!
//! This file is compiled twice: by the fuzz workspace, and by a test of the main one, which runs the corpus
//! and some mutated inputs wherever the tests run.

#[path = "tree.rs"]
mod tree;

use std::fmt::Display;

#[path = "trace.rs"]
pub mod trace;

use coreshard_topology::{CpuSet, Pods, Scope, ShardSize, Topology, Usable, input};

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All of them but the canary, by name.
pub const TARGETS: [(&str, Target); 17] = [
    ("cpu_list", cpu_list),
    ("cpu_mask", cpu_mask),
    ("synthetic", synthetic),
    ("hwloc_xml", hwloc_xml),
    ("machine_folder", machine_folder),
    ("machine_settings", machine_settings),
    ("workqueue_trace", workqueue_trace),
    ("machine_file", machine_file),
    ("contention_file", contention_file),
    ("words", words),
    ("job_file", job_file),
    ("insight_frame", insight_frame),
    ("queue_results", queue_results),
    ("recording", trace::recording),
    ("recorded_events", trace::recorded_events),
    ("btf", trace::btf),
    ("dwarf", trace::dwarf),
];

/// An error's text is short, and nothing but text.
fn told(error: impl Display) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() < 3_000, "{} bytes: {text:?}", text.len());
    let wrong = |letter| letter != '\n' && !input::is_plain(letter);
    assert!(!text.contains(wrong), "{text:?}");
}

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

pub fn cpu_list(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match text.parse::<CpuSet>() {
        Ok(set) => assert_eq!(set.to_string().parse::<CpuSet>().as_ref(), Ok(&set)),
        Err(error) => told(error),
    }
}

pub fn cpu_mask(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match CpuSet::from_mask(text) {
        Ok(set) => assert_eq!(set.to_string().parse::<CpuSet>().as_ref(), Ok(&set)),
        Err(error) => told(error),
    }
}

/// What holds of every machine, whatever was read.
fn is_sound(machine: &Topology) {
    assert!(!machine.cpus().is_empty());
    assert_eq!(machine.cpus().len(), machine.online().len());
    assert!(machine.online().is_disjoint(machine.offline()));
    assert!(machine.cores() <= machine.cpus().len() && machine.llcs() <= machine.cores());
    for text in
        machine.notes().iter().map(String::as_str).chain([machine.name()]).chain(machine.model())
    {
        assert!(text.chars().all(input::is_plain), "{text:?}");
    }
    // The rest takes its time on large machines, and is the same.
    if machine.cpus().len() > 300 {
        return;
    }
    for scope in Scope::ALL {
        let pods = Pods::new(machine, machine.online(), scope, ShardSize::DEFAULT).unwrap();
        let mut all = CpuSet::new();
        for pod in pods.iter() {
            assert!(all.is_disjoint(&pod.cpus) && !pod.cpus.is_empty());
            all = all.union(&pod.cpus);
        }
        assert_eq!(&all, machine.online());
    }
    let first: CpuSet = machine.online().first().into_iter().collect();
    assert_eq!(machine.restrict(&first).unwrap().cpus().len(), 1);
}

pub fn synthetic(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match Topology::parse_machine(text) {
        Ok(machine) => is_sound(&machine),
        Err(error) => told(error),
    }
}

pub fn hwloc_xml(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match Topology::from_hwloc_xml_text("machine.xml", text) {
        Ok(machine) => is_sound(&machine),
        Err(error) => told(error),
    }
}

/// The CPUs of a recorded machine.
pub fn machine_folder(data: &[u8]) {
    tree::with(data, |root| match Topology::from_sysfs(root) {
        Ok(machine) => {
            is_sound(&machine);
            match Usable::from_root(root, &machine) {
                Ok(usable) => {
                    assert!(usable.cpus().is_subset(machine.online()));
                    assert!((1..=usable.cpus().len()).contains(&usable.worker_limit()));
                }
                Err(error) => told(error),
            }
        }
        Err(error) => told(error),
    });
}

/// All other data of a recorded machine, and the advice for it.
pub fn machine_settings(data: &[u8]) {
    let facts = tree::with(data, |root| {
        let machine = Topology::from_sysfs(root);
        let machine = machine.or_else(|_| Topology::from_synthetic("pack:2 core:2 pu:2"));
        coreshard_advise::Facts::read(root, machine.expect("the other one is right"))
    });
    assert!(facts.notes.len() < 100, "{}", facts.notes.len());
    facts.notes.iter().for_each(told);
    let findings = coreshard_advise::judge(&facts, None);
    for finding in &findings {
        told(&finding.statement);
        assert!(
            finding.settings.iter().all(|setting| setting.to.chars().all(input::is_plain)),
            "{finding:?}"
        );
    }
    use coreshard_advise::emit::{boot_parameters, sysfs, tuned, udev};
    for text in [sysfs(&findings), boot_parameters(&findings), tuned(&findings), udev(&findings)] {
        assert!(!text.is_empty() && text.ends_with('\n'));
        assert!(text.chars().all(|letter| letter == '\n' || input::is_plain(letter)), "{text:?}");
    }
    serde_json::to_string(&(&facts, &findings)).unwrap();
}

/// The kernel's trace, with arbitrary names of threads and queues.
pub fn workqueue_trace(data: &[u8]) {
    let machine = Topology::from_synthetic("pack:2 core:2 pu:2").unwrap();
    let mut tally = coreshard_advise::measure::Tally::new(&machine, 10_000);
    String::from_utf8_lossy(data).lines().for_each(|line| tally.line(line));
    let measured = tally.finish(1.0);
    for queue in &measured.queues {
        assert!(queue.ended <= queue.started && queue.matched <= queue.queued, "{queue:?}");
        assert!(queue.name.chars().all(input::is_plain), "{queue:?}");
    }
    let facts = coreshard_advise::Facts::of_machine(machine);
    for finding in coreshard_advise::judge(&facts, Some(&measured)) {
        told(&finding.statement);
    }
}

pub fn machine_file(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match coreshard_sim::Machine::from_toml("machine.toml", text) {
        Ok(machine) => is_sound(machine.topology()),
        Err(error) => told(error),
    }
}

/// A description, each remedy of it, and the queueing model's figures, which are finite.
pub fn contention_file(data: &[u8]) {
    use coreshard_sim::contend::{Contention, Remedy, queueing};
    let Some(text) = text(data) else { return };
    let contention = match Contention::from_toml("it.toml", text) {
        Ok(contention) => contention,
        Err(error) => return told(error),
    };
    let machine = coreshard_sim::Machine::pocket();
    let changed = Remedy::ALL.into_iter().filter_map(|remedy| remedy.apply(&contention));
    for contention in std::iter::once(contention.clone()).chain(changed) {
        for threads in [1, 16] {
            let found = queueing::predict(&contention, &machine, threads, 10.0);
            assert!(found.per_sec.is_finite() && found.steps_ns >= 0.0, "{found:?}");
            assert!(found.busy.iter().all(|it| (0.0..=1.0).contains(it)), "{found:?}");
        }
    }
}

/// The values of options: every `FromStr` type without a separate target.
pub fn words(data: &[u8]) {
    fn word<T: std::str::FromStr<Err: Display> + ToString>(text: &str) {
        match text.parse::<T>() {
            Ok(value) => assert!(value.to_string().parse::<T>().is_ok()),
            Err(error) => told(error),
        }
    }
    let Some(text) = text(data) else { return };
    word::<Scope>(text);
    word::<coreshard_sim::Profile>(text);
    word::<coreshard_sim::search::ReplaySeed>(text);
    word::<coreshard::Wake>(text);
    word::<coreshard::Intake>(text);
    word::<coreshard::block::CounterLayout>(text);
    word::<coreshard::block::DeviceMemory>(text);
    word::<coreshard::block::TagPolicy>(text);
    word::<coreshard_advise::KernelVersion>(text);
    word::<coreshard_advise::ScopeSetting>(text);
    word::<coreshard_bench::Scenario>(text);
    word::<coreshard_rt::Rung>(text);
    word::<coreshard_sim::Call>(text);
    word::<coreshard_sim::Failing>(text);
    word::<coreshard_sim::Lasts>(text);
}

pub fn job_file(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Err(error) = coreshard_bench::parse_job_file(text, &Default::default()) {
        told(error);
    }
}

pub fn insight_frame(data: &[u8]) {
    coreshard::insight::read_any_frame(data);
}

/// Results that were written, and may have been changed since, in every form there is.
pub fn queue_results(data: &[u8]) {
    let Ok(results) = serde_json::from_slice::<coreshard_results::QueueResults>(data) else {
        return;
    };
    let page = coreshard_report::html::queue_page(&results);
    let table = coreshard_report::table::queue(&results, 100);
    for text in [page, table] {
        let wrong = |letter: char| letter.is_control() && letter != '\n';
        assert!(!text.contains(wrong), "{text:?}");
    }
    coreshard_report::csv::write_queue(&results, std::io::sink()).unwrap();
    let again = serde_json::to_vec(&results).unwrap();
    serde_json::from_slice::<serde_json::Value>(&again).unwrap();
}

/// Must fail: what does not find this finds nothing.
pub fn canary(data: &[u8]) {
    if let Some([b'c', b'a', b'n', second, ..]) =
        data.windows(4).find(|part| part.starts_with(b"can"))
    {
        assert!(*second != b'!', "the canary was found");
    }
}

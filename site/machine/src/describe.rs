//! A machine as JSON.

use coreshard_topology::{CpuKind, CpuSet, LlcId, Pods, Preset, Scope, ShardSize, Topology, TopologyError};
use serde::Serialize;

#[derive(Serialize)]
struct Description {
    name: String,
    model: Option<String>,
    notes: Vec<String>,
    /// By number: its core, cache, node, package, and P or E if known.
    cpus: Vec<CpuEntry>,
    caches: Vec<CacheEntry>,
    nodes: usize,
    packages: usize,
    cores: usize,
    /// From fine to coarse.
    scopes: Vec<ScopeEntry>,
}

#[derive(Serialize)]
struct CpuEntry {
    id: u32,
    core: u32,
    cache: u32,
    node: Option<u32>,
    package: u32,
    kind: &'static str,
}

#[derive(Serialize)]
struct CacheEntry {
    id: u32,
    level: Option<u32>,
    size_bytes: Option<u64>,
    cpus: String,
}

#[derive(Serialize)]
struct ScopeEntry {
    scope: &'static str,
    pods: Vec<PodEntry>,
}

#[derive(Serialize)]
struct PodEntry {
    cpus: String,
    members: Vec<u32>,
    cores: usize,
}

#[derive(Serialize)]
struct Failure {
    error: String,
}

#[derive(Serialize)]
struct PresetEntry {
    name: &'static str,
    title: String,
}

fn read(text: &str) -> Result<Topology, TopologyError> {
    if text.trim_start().starts_with('<') {
        Topology::from_hwloc_xml_text("machine.xml", text)
    } else {
        Topology::parse_machine(text)
    }
}

/// The machine of a preset's name, a description or hwloc's XML, divided by each scope; or why it is none.
#[must_use]
pub fn description(text: &str, shard_cores: usize) -> String {
    let described = read(text).map_err(|error| error.to_string()).and_then(|machine| {
        let scopes = Scope::ALL.map(|scope| scope_entry(&machine, scope, shard_cores));
        let scopes = scopes.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(describe(&machine, scopes))
    });
    let text = match described {
        Ok(description) => serde_json::to_string(&description),
        Err(error) => serde_json::to_string(&Failure { error }),
    };
    // All keys in it are text, so this does not fail.
    text.unwrap_or_default()
}

fn describe(machine: &Topology, scopes: Vec<ScopeEntry>) -> Description {
    let cpu = |cpu: &coreshard_topology::Cpu| CpuEntry {
        id: cpu.id.0,
        core: cpu.core.0,
        cache: cpu.llc.0,
        node: cpu.node.map(|node| node.0),
        package: cpu.package.0,
        kind: match cpu.kind {
            CpuKind::Performance => "P",
            CpuKind::Efficiency => "E",
            CpuKind::Unknown => "",
        },
    };
    let caches = (0..).map_while(|at| machine.llc(LlcId(at))).map(|llc| CacheEntry {
        id: llc.id.0,
        level: llc.level,
        size_bytes: llc.size_bytes,
        cpus: llc.cpus.to_string(),
    });
    Description {
        name: machine.name().to_owned(),
        model: machine.model().map(str::to_owned),
        notes: machine.notes().to_vec(),
        cpus: machine.cpus().iter().map(cpu).collect(),
        caches: caches.collect(),
        nodes: machine.nodes(),
        packages: machine.packages(),
        cores: machine.cores(),
        scopes,
    }
}

fn scope_entry(machine: &Topology, scope: Scope, shard_cores: usize) -> Result<ScopeEntry, String> {
    let pods = Pods::new(machine, machine.online(), scope, ShardSize::new(shard_cores));
    let pods = pods.map_err(|error| error.to_string())?;
    let members = |cpus: &CpuSet| cpus.iter().map(|cpu| cpu.0).collect();
    let entry = |pod: &coreshard_topology::Pod| PodEntry {
        cpus: pod.cpus.to_string(),
        members: members(&pod.cpus),
        cores: pod.cores,
    };
    Ok(ScopeEntry { scope: scope.name(), pods: pods.iter().map(entry).collect() })
}

/// The machines that are known by name.
#[must_use]
pub fn presets() -> String {
    let entry = |preset: Preset| PresetEntry { name: preset.name(), title: preset.title().to_owned() };
    let presets: Vec<_> = Topology::presets().unwrap_or_default().into_iter().map(entry).collect();
    serde_json::to_string(&presets).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn described(text: &str, shard: usize) -> Value {
        serde_json::from_str(&description(text, shard)).unwrap()
    }

    #[test]
    fn a_machine_is_divided_by_each_scope() {
        let grace = described("grace", 8);
        let pods = |at: usize| grace["scopes"][at]["pods"].as_array().unwrap().len();
        assert_eq!([pods(0), pods(1), pods(2), pods(3), pods(4), pods(5)], [72, 72, 9, 1, 1, 1]);
        assert_eq!(described("grace", 16)["scopes"][2]["pods"].as_array().unwrap().len(), 5);
        let xml = "<topology version='2.0'><object type='Machine' cpuset='0x3'><object type='Package' cpuset='0x3'>\
                   <object type='Core' cpuset='0x1'><object type='PU' os_index='0' cpuset='0x1'/></object>\
                   <object type='Core' cpuset='0x2'><object type='PU' os_index='1' cpuset='0x2'/></object>\
                   </object></object></topology>";
        assert_eq!(described(xml, 8)["cpus"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_machine_is_a_sentence() {
        for text in ["", "graec", "<topology", "pack:0"] {
            assert!(described(text, 8)["error"].as_str().is_some_and(|error| !error.is_empty()), "{text}");
        }
        assert!(presets().contains("\"grace\""));
    }
}

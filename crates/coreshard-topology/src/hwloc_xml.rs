//! Machines in hwloc's XML files (`lstopo file.xml`), of hwloc 1.x and 2.x.
//!
//! Both nest `object`s by containment and end in `PU`s. Two differences matter here. Version 1 calls a package `Socket`
//! (before 1.11) and a cache `Cache` with a `depth`, and version 2 calls it `L3Cache`. In version 2 a NUMA node is a
//! leaf beside the object it is local to. NUMA nodes are therefore read from their `cpuset`, which both versions have.

mod bounds;

use std::collections::BTreeMap;
use std::path::Path;

use roxmltree::{Document, Node, ParsingOptions};

use crate::error::beyond_max_cpu;
use crate::input::{self, NODES, XML_BYTES, XML_ELEMENTS, plain, quoted};
use crate::topology::{Parts, RawCpu};
use crate::{CpuId, CpuSet, MAX_CPU, NodeId, Topology, TopologyError};

/// Elements, and the texts between them.
const MAX_NODES: u32 = 3 * XML_ELEMENTS as u32;

/// Figures that distinguish kinds of CPUs, as an attribute of the kind or one of its infos. Higher means faster.
const FIGURES: [&str; 5] =
    ["efficiency", "forced_efficiency", "LinuxCapacity", "FrequencyBaseMHz", "FrequencyMaxMHz"];

/// Maximum number of kinds of CPUs. hwloc knows two or three.
const MAX_KINDS: usize = 64;

/// Reads the machine in a file.
pub(crate) fn of_file(path: &Path) -> Result<Topology, TopologyError> {
    topology(path, &input::text(path, XML_BYTES)?)
}

/// Parses the text of a file. `path` is used for its name and in messages.
pub(crate) fn topology(path: &Path, text: &str) -> Result<Topology, TopologyError> {
    let seen = bounds::look(text).map_err(|(byte, problem)| {
        let before = &text[..byte];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        TopologyError::file_at(path, line, column, problem)
    })?;
    let options = ParsingOptions {
        allow_dtd: seen.has_doctype,
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        // The library's message repeats the position at its end.
        let message = error.to_string();
        let message = message.split(" at ").next().unwrap_or(&message).to_owned();
        file_at(path, (at.row, at.col), format!("invalid XML: {}", plain(&message)))
    })?;
    XmlReader { path, document: &document }.topology()
}

/// Returns the value of an element's info.
fn info<'a>(element: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let mut infos = element.children().filter(|node| node.has_tag_name("info"));
    infos.find(|info| info.attribute("name") == Some(name))?.attribute("value")
}

fn file_at(path: &Path, (line, column): (u32, u32), problem: String) -> TopologyError {
    TopologyError::file_at(path, line as usize, column as usize, problem)
}

struct XmlReader<'a, 'input> {
    path: &'a Path,
    document: &'a Document<'input>,
}

/// The enclosing objects.
#[derive(Clone, Copy, Default)]
struct Inside {
    /// Keys, and the OS number of the package.
    package: Option<(u64, Option<u32>)>,
    core: Option<(u64, Option<u32>)>,
    /// Rank (unified before data, then level) and key.
    cache: Option<((bool, u32), u64)>,
    /// The key of the L2 cache.
    level_2: Option<u64>,
}

/// A NUMA node and its local CPUs.
struct Local {
    node: NodeId,
    cpus: CpuSet,
}

impl XmlReader<'_, '_> {
    fn topology(&self) -> Result<Topology, TopologyError> {
        let root = self.document.root_element();
        if root.tag_name().name() != "topology" {
            let problem = format!("expected <topology>, found <{}>", plain(root.tag_name().name()));
            return Err(self.fail(root, problem));
        }
        let name = self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy();
        let mut parts = Parts::new(plain(&name));
        let mut locals = Vec::new();
        self.objects(root, &mut parts, &mut locals)?;
        if parts.cpus.is_empty() {
            return Err(self.fail(root, "expected an object of type PU".to_owned()));
        }
        self.nodes(&mut parts, locals);
        self.kinds(root, &mut parts)?;
        Self::missing(&mut parts);
        self.offline(root, &mut parts)?;
        parts.assemble()
    }

    /// Walks the tree with an explicit stack, as files may be nested too deeply for recursion.
    fn objects(
        &self,
        root: Node<'_, '_>,
        parts: &mut Parts,
        locals: &mut Vec<Local>,
    ) -> Result<(), TopologyError> {
        let mut key = 0;
        let mut stack: Vec<(Node<'_, '_>, Inside)> = vec![(root, Inside::default())];
        while let Some((parent, inside)) = stack.pop() {
            for object in parent.children().filter(|node| node.has_tag_name("object")) {
                let mut inside = inside;
                key += 1;
                let kind = object.attribute("type").unwrap_or_default();
                match kind {
                    "Package" | "Socket" => {
                        inside.package = Some((key, self.os_index(object)?));
                        self.model(object, parts);
                    }
                    "Core" => inside.core = Some((key, self.os_index(object)?)),
                    "PU" => self.cpu(object, inside, key, parts)?,
                    "NUMANode" | "Node" => {
                        let number = self.os_index(object)?.map(NodeId);
                        let node = number.ok_or_else(|| self.lacks(object, "os_index"))?;
                        parts.nodes.insert(node);
                        if locals.len() == NODES {
                            let problem = format!("expected at most {NODES} NUMA nodes");
                            return Err(self.fail(object, problem));
                        }
                        let cpus = self.cpuset(object, "cpuset")?;
                        locals.push(Local { node, cpus: cpus.unwrap_or_default() });
                    }
                    _ => {
                        if let Some(rank) = self.cache_rank(object, kind)? {
                            let size = self.number(object, "cache_size")?.filter(|size| *size > 0);
                            parts.caches.insert(key, (Some(rank.1), size));
                            if rank.1 == 2 {
                                inside.level_2 = Some(key);
                            }
                            if inside.cache.is_none_or(|(best, _)| best < rank) {
                                inside.cache = Some((rank, key));
                            }
                        }
                    }
                }
                stack.push((object, inside));
            }
        }
        Ok(())
    }

    fn cpu(
        &self,
        object: Node<'_, '_>,
        inside: Inside,
        key: u64,
        parts: &mut Parts,
    ) -> Result<(), TopologyError> {
        let number = self.os_index(object)?.ok_or_else(|| self.lacks(object, "os_index"))?;
        if number > MAX_CPU.0 {
            return Err(self.fail(object, beyond_max_cpu(number)));
        }
        // Keys start at 1, and 0 means none.
        let package = inside.package.map_or(0, |(key, _)| key);
        parts.cpus.push(RawCpu {
            core: inside.core.map_or(key, |(key, _)| key),
            llc: inside.cache.map_or(package, |(_, key)| key),
            package,
            cluster: inside.level_2,
            os_core: inside.core.and_then(|(_, number)| number),
            os_package: inside.package.and_then(|(_, number)| number),
            ..RawCpu::of(CpuId(number))
        });
        Ok(())
    }

    /// Parses `L3Cache` of version 2, or `Cache` with its depth of version 1.
    fn cache_rank(
        &self,
        object: Node<'_, '_>,
        kind: &str,
    ) -> Result<Option<(bool, u32)>, TopologyError> {
        let is_cache = kind == "Cache" || (kind.starts_with('L') && kind.ends_with("Cache"));
        if !is_cache {
            return Ok(None);
        }
        let depth = self.number(object, "depth")?.and_then(|depth| u32::try_from(depth).ok());
        let level = depth.ok_or_else(|| self.lacks(object, "depth"))?;
        // 0 is unified, 1 data, 2 instructions. hwloc 1.0 to 1.3 did not write it.
        match self.number(object, "cache_type")? {
            None | Some(0) => Ok(Some((true, level))),
            Some(1) => Ok(Some((false, level))),
            Some(2) => Ok(None),
            Some(other) => {
                let problem = format!("expected 0, 1 or 2 as cache_type, found {other}");
                Err(self.fail(object, problem))
            }
        }
    }

    /// Assigns each CPU the node that is local to the fewest CPUs, the first one on a tie.
    fn nodes(&self, parts: &mut Parts, mut locals: Vec<Local>) {
        locals.sort_by_key(|local| local.cpus.len());
        let mut node_of: BTreeMap<CpuId, NodeId> = BTreeMap::new();
        // Each CPU is checked once, however many nodes it is local to.
        let mut left: CpuSet = parts.cpus.iter().map(|cpu| cpu.id).collect();
        for local in &locals {
            let first = &local.cpus & &left;
            node_of.extend(first.iter().map(|cpu| (cpu, local.node)));
            left = &left - &first;
        }
        let mut without = CpuSet::new();
        for cpu in &mut parts.cpus {
            cpu.node = node_of.get(&cpu.id).copied();
            if cpu.node.is_none() {
                without.insert(cpu.id);
            }
        }
        parts.note_cpus(&without, "without a NUMA node; it is unknown");
    }

    /// Reads the `cpukind` elements of hwloc 2.4 and later: by Intel's core type, or by the first of [`FIGURES`] that
    /// all kinds have.
    fn kinds(&self, root: Node<'_, '_>, parts: &mut Parts) -> Result<(), TopologyError> {
        let elements = root.children().filter(|node| node.has_tag_name("cpukind"));
        let mut all = Vec::new();
        for (number, element) in elements.enumerate() {
            if number == MAX_KINDS {
                let problem = format!("expected at most {MAX_KINDS} kinds of CPUs");
                return Err(self.fail(element, problem));
            }
            let cpus = self.cpuset(element, "cpuset")?.unwrap_or_default();
            all.push((element, cpus));
        }
        let of_type = |wanted: &str| {
            let its = all.iter().filter(|(element, _)| info(*element, "CoreType") == Some(wanted));
            its.flat_map(|(_, cpus)| cpus).collect::<CpuSet>()
        };
        let (fast, thrifty) = (of_type("IntelCore"), of_type("IntelAtom"));
        if !fast.is_empty() || !thrifty.is_empty() {
            parts.set_kinds(&fast, &thrifty);
            return Ok(());
        }
        for name in FIGURES {
            let figure = |(element, cpus): &(Node<'_, '_>, CpuSet)| {
                let text = element.attribute(name).or_else(|| info(*element, name))?;
                let figure = text.parse::<u64>().ok()?;
                // Ranks start at 0 and differ by 1 for each kind.
                let figure =
                    if name.ends_with("efficiency") { 1 << figure.min(62) } else { figure };
                Some(cpus.iter().map(move |cpu| (figure, cpu)).collect::<Vec<_>>())
            };
            let figures: Option<Vec<_>> = all.iter().map(figure).collect();
            let figures = figures.map(|figures| figures.concat()).unwrap_or_default();
            if parts.split_kinds(figures, name) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Adds notes on replacements for missing objects.
    fn missing(parts: &mut Parts) {
        let lacking = |lacks: &dyn Fn(&RawCpu) -> bool| -> CpuSet {
            parts.cpus.iter().filter(|cpu| lacks(cpu)).map(|cpu| cpu.id).collect()
        };
        let packageless = lacking(&|cpu| cpu.package == 0);
        let cacheless = lacking(&|cpu| !parts.caches.contains_key(&cpu.llc));
        parts.note_cpus(&packageless, "without a package; they are treated as one package");
        let note = "without a cache; their package is treated as their last-level cache";
        parts.note_cpus(&cacheless, note);
    }

    /// Returns the CPUs that the machine has (`complete_cpuset`) without a description.
    fn offline(&self, root: Node<'_, '_>, parts: &mut Parts) -> Result<(), TopologyError> {
        if let Some(machine) = root.children().find(|node| node.has_tag_name("object")) {
            parts.offline = self.cpuset(machine, "complete_cpuset")?.unwrap_or_default();
        }
        Ok(())
    }

    fn model(&self, package: Node<'_, '_>, parts: &mut Parts) {
        if let (None, Some(text)) = (&parts.model, info(package, "CPUModel")) {
            parts.model = Some(plain(text)).filter(|model| !model.is_empty());
        }
    }

    /// Returns the OS number. -1, signed or unsigned, means unknown.
    fn os_index(&self, object: Node<'_, '_>) -> Result<Option<u32>, TopologyError> {
        if object.attribute("os_index") == Some("-1") {
            return Ok(None);
        }
        let number = self.number(object, "os_index")?.filter(|n| *n != u64::from(u32::MAX));
        let wide = |_| self.fail(object, "os_index exceeds 32 bits".to_owned());
        number.map(u32::try_from).transpose().map_err(wide)
    }

    fn number(&self, object: Node<'_, '_>, name: &str) -> Result<Option<u64>, TopologyError> {
        let Some(text) = object.attribute(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            self.fail(object, format!("expected a whole number as {name}, found {}", quoted(text)))
        })
    }

    fn cpuset(&self, object: Node<'_, '_>, name: &str) -> Result<Option<CpuSet>, TopologyError> {
        let Some(text) = object.attribute(name) else { return Ok(None) };
        // "0xf...f" is an infinite set, which hwloc writes for unknown CPUs.
        if text.starts_with("0xf...f") {
            return Ok(None);
        }
        let set = CpuSet::from_mask(text);
        set.map(Some).map_err(|error| self.fail(object, format!("{name}: {error}")))
    }

    fn lacks(&self, object: Node<'_, '_>, name: &str) -> TopologyError {
        let kind = object.attribute("type").unwrap_or_default();
        self.fail(object, format!("the {} object lacks {name}", plain(kind)))
    }

    fn fail(&self, node: Node<'_, '_>, problem: String) -> TopologyError {
        let at = self.document.text_pos_at(node.range().start);
        file_at(self.path, (at.row, at.col), problem)
    }
}

#[cfg(test)]
mod tests;

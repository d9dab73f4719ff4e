//! Reads the last-level cache of each CPU.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::OsString;

use super::file::Folder;
use super::note::{SharersHash, note_disagreement};
use crate::input::quoted;
use crate::topology::Parts;
use crate::{CpuId, CpuSet, NodeId, TopologyError};

/// Set in keys of packages that replace a cache, so that they differ from keys of caches.
const PACKAGE: u64 = 1 << 63;

/// Set in keys made from a cache's ID instead of its lowest CPU.
const BY_ID: u64 = 1 << 62;

/// The highest accepted cache level, far below the bits above.
const MAX_LEVELS: u32 = 255;

/// A cache as one of its CPUs describes it.
struct Cache {
    level: u32,
    sharers: Sharers,
    folder: Folder,
}

/// The last-level cache of a CPU, for comparison with other CPUs.
struct KnownCache {
    /// The name of the cache's folder below that CPU.
    name: OsString,
    cpus: CpuSet,
    key: u64,
}

/// The sharers of a cache: the CPUs, or an ID that is unique among caches of this level.
enum Sharers {
    Cpus(CpuSet),
    Id(u32),
}

/// Sets the last-level cache of each CPU in `parts`.
pub(super) fn read(
    folder: &Folder,
    online: &CpuSet,
    parts: &mut Parts,
) -> Result<(), TopologyError> {
    let mut said: HashMap<CpuId, SharersHash> = HashMap::new();
    let mut without = CpuSet::new();
    let mut unsized_caches = CpuSet::new();
    let mut stand_ins: HashMap<(u64, Option<NodeId>), u64> = HashMap::new();
    let mut divided = false;
    let mut known: Vec<KnownCache> = Vec::new();
    for cpu in &mut parts.cpus {
        if let Some(same) = same_as_known(folder, cpu.id, &known)? {
            cpu.llc = same.key;
            said.insert(cpu.id, SharersHash::new(&(&same.cpus & online)));
            continue;
        }
        let Some(cache) = last_level(&folder.folder(format!("cpu{}/cache", cpu.id)))? else {
            without.insert(cpu.id);
            // A cache does not span nodes, so a package that does has several.
            let key = stand_ins.len() as u64;
            cpu.llc = PACKAGE | *stand_ins.entry((cpu.package, cpu.node)).or_insert(key);
            let other = |(package, node): &(u64, _)| *package == cpu.package && *node != cpu.node;
            divided |= stand_ins.len() as u64 > key && stand_ins.keys().any(other);
            continue;
        };
        let level = u64::from(cache.level) << 32;
        cpu.llc = match cache.sharers {
            Sharers::Id(id) => BY_ID | level | u64::from(id),
            Sharers::Cpus(cpus) => {
                let sharers = &cpus & online;
                let lowest = sharers.first().map_or(cpu.id, |lowest| lowest.min(cpu.id));
                said.insert(cpu.id, SharersHash::new(&sharers));
                let key = level | u64::from(lowest.0);
                if let Some(name) = cache.folder.path().file_name().filter(|_| cpus.len() > 1) {
                    known.push(KnownCache { name: name.to_owned(), cpus, key });
                }
                key
            }
        };
        if let Entry::Vacant(entry) = parts.caches.entry(cpu.llc) {
            let text = cache.folder.word("size")?;
            let size_bytes = text.as_deref().and_then(size_bytes);
            if text.is_some() && size_bytes.is_none() {
                unsized_caches.insert(cpu.id);
            }
            entry.insert((Some(cache.level), size_bytes));
        }
    }
    let stand_in = if divided { "package's part on their node" } else { "package" };
    let note = format!("without a cache; their {stand_in} is treated as their last-level cache");
    parts.note_cpus(&without, &note);
    parts.note_cpus(&unsized_caches, "with a cache whose size cannot be read");
    note_disagreement(parts, "last-level cache", |cpu| cpu.llc, &said);
    Ok(())
}

/// Returns the known cache if this CPU describes the cache of the same name as the other CPU did. This takes one file,
/// while finding the last-level cache takes one per cache and more. If both CPUs share it, it is the last-level cache
/// of both.
fn same_as_known<'known>(
    folder: &Folder,
    cpu: CpuId,
    known: &'known [KnownCache],
) -> Result<Option<&'known KnownCache>, TopologyError> {
    // The latest first: adjacent CPUs share caches.
    let Some(shared) = known.iter().rev().find(|known| known.cpus.contains(cpu)) else {
        return Ok(None);
    };
    let folder = folder.folder(format!("cpu{cpu}/cache")).folder(&shared.name);
    let says = folder.first_set(&["shared_cpu_list", "shared_cpu_map"])?;
    Ok(says.is_some_and(|cpus| cpus == shared.cpus).then_some(shared))
}

/// Returns the highest unified cache, or the highest data cache if none is unified. It searches from the highest level
/// and stops early: reading all cache files of all CPUs would take longer than the rest of the machine.
fn last_level(folder: &Folder) -> Result<Option<Cache>, TopologyError> {
    let mut levels = Vec::new();
    for index in folder.numbered("index")? {
        let folder = folder.folder(format!("index{index}"));
        let Some(level) = folder.number("level")? else { continue };
        if level > MAX_LEVELS {
            let problem = format!("expected a level of at most {MAX_LEVELS}, found {level}");
            return Err(TopologyError::file(&folder.path().join("level"), problem));
        }
        levels.push((level, folder));
    }
    // The sort is stable within a level.
    levels.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    let mut data = None;
    for (level, folder) in levels {
        let Some(kind) = folder.word("type")? else { continue };
        let is_unified = match kind.as_str() {
            "Unified" => true,
            "Data" if data.is_some() => continue,
            "Data" => false,
            "Instruction" => continue,
            other => {
                let problem =
                    format!("expected Unified, Data or Instruction, found {}", quoted(other));
                return Err(TopologyError::file(&folder.path().join("type"), problem));
            }
        };
        let sharers = match folder.first_set(&["shared_cpu_list", "shared_cpu_map"])? {
            Some(cpus) => Sharers::Cpus(cpus),
            None => match folder.number("id")? {
                Some(id) => Sharers::Id(id),
                None => continue,
            },
        };
        let cache = Cache { level, sharers, folder };
        if is_unified {
            return Ok(Some(cache));
        }
        data = Some(cache);
    }
    Ok(data)
}

/// Parses `32768K` as bytes.
fn size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

//! The last-level cache of each CPU.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::cpu::note_disagreement;
use super::cpus;
use super::file::Folder;
use crate::assembly::Parts;
use crate::{CpuId, CpuSet, TopologyError};

/// Keys of packages that stand in for a cache have this bit, so that no cache is taken for one.
const PACKAGE: u64 = 1 << 63;

/// A cache, as one of its CPUs tells of it.
struct Cache {
    level: u32,
    is_unified: bool,
    cpus: CpuSet,
    folder: Folder,
}

/// Gives each CPU in `parts` its last-level cache.
pub(super) fn read(
    folder: &Folder,
    online: &CpuSet,
    parts: &mut Parts,
) -> Result<(), TopologyError> {
    let mut said: HashMap<CpuId, Option<CpuSet>> = HashMap::new();
    let mut without = CpuSet::new();
    let mut unsized_caches = CpuSet::new();
    for cpu in &mut parts.cpus {
        let Some(cache) = last_level(&folder.folder(format!("cpu{}/cache", cpu.id)))? else {
            without.insert(cpu.id);
            cpu.llc = PACKAGE | cpu.package;
            continue;
        };
        let sharers = &cache.cpus & online;
        let lowest = sharers.first().map_or(cpu.id, |lowest| lowest.min(cpu.id));
        cpu.llc = u64::from(cache.level) << 32 | u64::from(lowest.0);
        if let Entry::Vacant(entry) = parts.caches.entry(cpu.llc) {
            let text = cache.folder.text("size")?;
            let size_bytes = text.as_deref().and_then(size_bytes);
            if text.is_some() && size_bytes.is_none() {
                unsized_caches.insert(cpu.id);
            }
            entry.insert((Some(cache.level), size_bytes));
        }
        said.insert(cpu.id, Some(sharers));
    }
    if !without.is_empty() {
        let note = "without a cache; their package is taken as their last-level cache";
        parts.notes.push(format!("{} {note}", cpus(&without)));
    }
    if !unsized_caches.is_empty() {
        parts
            .notes
            .push(format!("{} with a cache whose size cannot be read", cpus(&unsized_caches)));
    }
    let keys = parts.cpus.iter().map(|cpu| (cpu.id, cpu.llc));
    note_disagreement("last-level cache", keys, &said, &mut parts.notes);
    Ok(())
}

/// The highest unified cache, or the highest data cache if none is unified.
fn last_level(folder: &Folder) -> Result<Option<Cache>, TopologyError> {
    let mut best: Option<Cache> = None;
    for index in folder.numbered("index")? {
        let folder = folder.folder(format!("index{index}"));
        let Some(level) = folder.number("level")? else { continue };
        let Some(kind) = folder.text("type")? else { continue };
        let is_unified = match kind.trim() {
            "Unified" => true,
            "Data" => false,
            "Instruction" => continue,
            other => {
                let problem = format!("expected Unified, Data or Instruction, found {other:?}");
                return Err(TopologyError::file(&folder.path().join("type"), problem));
            }
        };
        let Some(cpus) = folder.first_set(&["shared_cpu_list", "shared_cpu_map"])? else {
            continue;
        };
        let rank = (is_unified, level);
        if best.as_ref().is_none_or(|best| (best.is_unified, best.level) < rank) {
            best = Some(Cache { level, is_unified, cpus, folder });
        }
    }
    Ok(best)
}

/// `32768K` in bytes.
fn size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(number) if text.ends_with('K') => (number, 1 << 10),
        Some(number) if text.ends_with('M') => (number, 1 << 20),
        Some(number) => (number, 1 << 30),
        None => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

//! Notes on CPUs that contradict one another.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::topology::{Parts, RawCpu};
use crate::{CpuId, CpuSet};

/// A hash of the CPUs that share an object, as one of them lists them. Storing the sets would take a GiB on large
/// machines. A collision only suppresses a note.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SharersHash(u64);

impl SharersHash {
    pub(super) fn new(set: &CpuSet) -> Self {
        let mut hasher = DefaultHasher::new();
        set.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Adds a note on the CPUs whose list of sharers differs from the CPUs with the same `key`.
pub(super) fn note_disagreement(
    parts: &mut Parts,
    what: &str,
    key: impl Fn(&RawCpu) -> u64,
    said: &HashMap<CpuId, SharersHash>,
) {
    let mut together: HashMap<u64, CpuSet> = HashMap::new();
    for cpu in &parts.cpus {
        together.entry(key(cpu)).or_default().insert(cpu.id);
    }
    let together: HashMap<u64, SharersHash> =
        together.into_iter().map(|(key, set)| (key, SharersHash::new(&set))).collect();
    let disagrees =
        |cpu: &&RawCpu| said.get(&cpu.id).is_some_and(|said| *said != together[&key(cpu)]);
    let wrong: CpuSet = parts.cpus.iter().filter(disagrees).map(|cpu| cpu.id).collect();
    parts.note_cpus(&wrong, &format!("disagree with others on which CPUs share their {what}"));
}

//! What is noted of CPUs that tell nothing, or contradict one another.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::input;
use crate::{CpuId, CpuSet};

/// `CPU 3` or `CPUs 0-3`, to start a note with.
pub(super) fn cpus(set: &CpuSet) -> String {
    let noun = if set.len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {}", input::plain(&set.to_string()))
}

/// Which CPUs share a thing, as one of them says: a hash of the set, since the sets of many CPUs that name many
/// would take a GiB. Two sets of one hash would keep a note from being written, and no more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SharersHash(u64);

impl SharersHash {
    pub(super) fn new(set: &CpuSet) -> Self {
        let mut hasher = DefaultHasher::new();
        set.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Notes the CPUs that say they share a thing with others than those they came to share it with.
pub(super) fn note_disagreement(
    what: &str,
    keys: impl Iterator<Item = (CpuId, u64)>,
    said: &HashMap<CpuId, SharersHash>,
    notes: &mut Vec<String>,
) {
    let keys: Vec<(CpuId, u64)> = keys.collect();
    let mut together: HashMap<u64, CpuSet> = HashMap::new();
    for (cpu, key) in &keys {
        together.entry(*key).or_default().insert(*cpu);
    }
    let together: HashMap<u64, SharersHash> =
        together.into_iter().map(|(key, set)| (key, SharersHash::new(&set))).collect();
    let disagree =
        |(cpu, key): &&(CpuId, u64)| said.get(cpu).is_some_and(|said| *said != together[key]);
    let wrong: CpuSet = keys.iter().filter(disagree).map(|(cpu, _)| *cpu).collect();
    if !wrong.is_empty() {
        notes.push(format!(
            "{} disagree with others on which CPUs share their {what}",
            cpus(&wrong)
        ));
    }
}

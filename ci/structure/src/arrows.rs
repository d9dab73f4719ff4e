//! The dependencies between a crate's files.

use std::collections::{BTreeMap, BTreeSet};

use crate::krate::{Crate, ModulePath};
use crate::uses::{self, Uses};

/// For each file, the files that it depends on, each with the names that it uses.
pub(crate) type Arrows<'read> =
    BTreeMap<&'read ModulePath, BTreeMap<&'read ModulePath, BTreeSet<String>>>;

pub(crate) fn of(read: &Crate) -> Arrows<'_> {
    let uses: BTreeMap<ModulePath, Uses> = read
        .modules
        .iter()
        .map(|(path, module)| (path.clone(), uses::of(read, path, module)))
        .collect();
    let mut arrows = Arrows::new();
    for path in read.modules.keys() {
        let leans_on = arrows.entry(path).or_default();
        for used in &uses[path].arrows {
            let Some(target) = uses::resolve(read, &uses, used, 0) else { continue };
            if target != path {
                let name = used.last().cloned().unwrap_or_default();
                leans_on.entry(target).or_default().insert(name);
            }
        }
    }
    arrows
}

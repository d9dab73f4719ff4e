//! Circles of files: those that lean on one another, by whatever way.

use std::collections::{BTreeMap, BTreeSet};

use crate::krate::{Crate, ModulePath};
use crate::uses::{self, Uses};

/// For each file, those that it leans on, and for which names.
type Arrows<'read> = BTreeMap<&'read ModulePath, BTreeMap<&'read ModulePath, BTreeSet<String>>>;

/// Each circle, in words.
pub(crate) fn find(read: &Crate) -> Vec<String> {
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
    let reached: BTreeMap<_, _> = arrows.keys().map(|path| (*path, reach(&arrows, path))).collect();
    let mut told = BTreeSet::new();
    let mut breaches = Vec::new();
    for path in arrows.keys() {
        let circle: BTreeSet<_> =
            reached[path].iter().filter(|other| reached[*other].contains(path)).copied().collect();
        if !circle.is_empty() && told.insert(circle.clone()) {
            breaches.push(in_words(read, &arrows, &circle));
        }
    }
    breaches
}

/// All that a file leans on, directly or not.
fn reach<'read>(arrows: &Arrows<'read>, from: &ModulePath) -> BTreeSet<&'read ModulePath> {
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = arrows[from].keys().copied().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(arrows[next].keys().copied());
        }
    }
    found
}

fn in_words(read: &Crate, arrows: &Arrows<'_>, circle: &BTreeSet<&ModulePath>) -> String {
    let file = |path: &ModulePath| read.modules[path].file.display().to_string();
    let mut text = format!("{} files of {} form a circle", circle.len(), read.name);
    for (from, leans_on) in arrows.iter().filter(|(from, _)| circle.contains(*from)) {
        for (to, names) in leans_on.iter().filter(|(to, _)| circle.contains(*to)) {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            text += &format!("\n    {} uses {} of {}", file(from), names.join(", "), file(to));
        }
    }
    text + "\n  to mend it: move what both need into a file below them, or pass it in as a value, a table of \
            functions or a trait"
}

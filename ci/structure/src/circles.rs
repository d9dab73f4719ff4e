//! Circles of files that depend on one another.

use std::collections::{BTreeMap, BTreeSet};

use crate::arrows::Arrows;
use crate::krate::{Crate, ModulePath};

/// The dependencies of each module.
pub(crate) type Graph<'read> = BTreeMap<&'read [String], BTreeSet<&'read [String]>>;

/// Each circle of files, in words.
pub(crate) fn find(read: &Crate, arrows: &Arrows<'_>) -> Vec<String> {
    let graph = arrows
        .iter()
        .map(|(from, to)| (from.as_slice(), to.keys().map(|to| to.as_slice()).collect()))
        .collect();
    circles_of(&graph).iter().map(|circle| in_words(read, arrows, circle)).collect()
}

/// Each circle, once.
pub(crate) fn circles_of<'read>(graph: &Graph<'read>) -> BTreeSet<BTreeSet<&'read [String]>> {
    let reached: BTreeMap<_, _> = graph.keys().map(|from| (*from, reach(graph, from))).collect();
    let circle = |from: &&'read [String]| -> BTreeSet<&'read [String]> {
        reached[from].iter().filter(|other| reached[*other].contains(from)).copied().collect()
    };
    graph.keys().map(circle).filter(|circle| !circle.is_empty()).collect()
}

/// All dependencies of a module, direct and indirect.
fn reach<'read>(graph: &Graph<'read>, from: &[String]) -> BTreeSet<&'read [String]> {
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = graph[from].iter().copied().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(&graph[next]);
        }
    }
    found
}

fn in_words(read: &Crate, arrows: &Arrows<'_>, circle: &BTreeSet<&[String]>) -> String {
    let within = |path: &&ModulePath| circle.contains(path.as_slice());
    let mut text = format!("{} files of {} form a circle", circle.len(), read.name);
    for (from, leans_on) in arrows.iter().filter(|(from, _)| within(from)) {
        for (to, names) in leans_on.iter().filter(|(to, _)| within(to)) {
            text += &arrow_in_words(read, from, to, names);
        }
    }
    text + "\n  to fix it: move what both need into a file below them, or pass it in as a value, a table of \
            functions or a trait"
}

/// One dependency as a line: the using file, the names, the used file.
pub(crate) fn arrow_in_words(
    read: &Crate,
    from: &ModulePath,
    to: &ModulePath,
    names: &BTreeSet<String>,
) -> String {
    let file = |path: &ModulePath| read.modules[path].file.display().to_string();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    format!("\n    {} uses {} of {}", file(from), names.join(", "), file(to))
}

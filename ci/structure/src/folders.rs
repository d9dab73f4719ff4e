//! Dependencies between sibling modules, folders or files: a folder has the dependencies of all files in it.

use std::collections::BTreeSet;

use crate::arrows::Arrows;
use crate::circles::{Graph, arrow_in_words, circles_of};
use crate::krate::{Crate, ModulePath};

/// How many of its neighbours a module may import, so that a reader can remember them.
const MAX_NEIGHBOURS: usize = 7;

/// Describes each circle of modules in the same folder. A circle of plain files is reported as a circle of files.
pub(crate) fn find_circles(read: &Crate, arrows: &Arrows<'_>) -> Vec<String> {
    let mut breaches = Vec::new();
    let parents: BTreeSet<_> = read.modules.keys().filter_map(|path| path.split_last()).collect();
    for parent in parents.into_iter().map(|(_, parent)| parent).collect::<BTreeSet<_>>() {
        for circle in circles_of(&neighbours(read, arrows, parent)) {
            if circle.iter().any(|module| has_children(read, module)) {
                breaches.push(circle_in_words(read, arrows, &circle));
            }
        }
    }
    breaches
}

/// Describes each module directly below the root that imports too many of the others there.
pub(crate) fn find_crowded(read: &Crate, arrows: &Arrows<'_>) -> Vec<String> {
    let graph = neighbours(read, arrows, &[]);
    let crowded = graph.iter().filter(|(_, imported)| imported.len() > MAX_NEIGHBOURS);
    crowded
        .map(|(module, imported)| {
            let names: Vec<_> = imported.iter().map(|path| path.join("::")).collect();
            format!(
                "{} of {} imports {} of its neighbours, and {MAX_NEIGHBOURS} is the most\n    {}\n  to fix it: put \
                 neighbours that belong together into one folder, move a part of {0} out that needs only some of \
                 them, or have what it needs passed in",
                module.join("::"),
                read.name,
                imported.len(),
                names.join(", "),
            )
        })
        .collect()
}

/// The modules of a folder, each with the siblings that it depends on.
fn neighbours<'read>(
    read: &'read Crate,
    arrows: &Arrows<'read>,
    parent: &[String],
) -> Graph<'read> {
    let length = parent.len() + 1;
    let module = |path: &'read ModulePath| {
        Some(path.get(..length)?).filter(|module| module.starts_with(parent))
    };
    let modules = read.modules.keys().filter_map(module);
    let mut graph: Graph<'read> = modules.map(|module| (module, BTreeSet::new())).collect();
    for (from, leans_on) in arrows {
        let Some(from) = module(from) else { continue };
        let others = leans_on.keys().filter_map(|to| module(to)).filter(|to| *to != from);
        graph.entry(from).or_default().extend(others);
    }
    graph
}

fn has_children(read: &Crate, module: &[String]) -> bool {
    read.modules.keys().any(|path| path.len() > module.len() && path.starts_with(module))
}

fn circle_in_words(read: &Crate, arrows: &Arrows<'_>, circle: &BTreeSet<&[String]>) -> String {
    let within = |path: &ModulePath| circle.iter().copied().find(|module| path.starts_with(module));
    let modules: Vec<_> = circle.iter().map(|path| path.join("::")).collect();
    let mut text = format!("modules of {} form a circle: {}", read.name, modules.join(", "));
    for (from, leans_on) in arrows {
        let Some(module) = within(from) else { continue };
        for (to, names) in leans_on {
            if within(to).is_some_and(|other| other != module) {
                text += &arrow_in_words(read, from, to, names);
            }
        }
    }
    text + "\n  to fix it: move what both need into a module below them, put a part of one where it is needed, or \
            pass it in as a value, a table of functions or a trait"
}

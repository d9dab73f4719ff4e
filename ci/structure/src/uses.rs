//! Which names of other files a file uses.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::Visit;
use syn::{Item, ItemUse, Path, UseTree, Visibility};

use crate::krate::{Crate, Module, ModulePath};

/// A path as it is written, by its segments.
pub(crate) type Written = Vec<String>;

/// The names that a module imports by `use`, and the paths that it uses.
pub(crate) struct Uses {
    /// The name in this module, and the path from the crate's root that it stands for.
    pub(crate) imports: BTreeMap<String, Vec<String>>,
    /// All paths within the crate that count as an arrow, from the root.
    pub(crate) arrows: BTreeSet<Vec<String>>,
}

pub(crate) fn of(read: &Crate, path: &ModulePath, module: &Module) -> Uses {
    let mut found = Visitor::default();
    module.items.iter().for_each(|item| found.visit_item(item));
    let mut words = BTreeSet::new();
    // Only needed for re-exports; turning items into words takes a fifth of the whole run.
    if found.imports.iter().any(|(_, _, is_re_export)| *is_re_export) {
        let bodies = module.items.iter().filter(|item| !matches!(item, Item::Use(_)));
        bodies.for_each(|item| collect_words(item.to_token_stream(), &mut words));
    }
    let mut uses = Uses { imports: BTreeMap::new(), arrows: BTreeSet::new() };
    for (name, written, is_re_export) in found.imports {
        let Some(absolute) = from_root(read, path, &written) else { continue };
        // A re-export that the module does not use does not count as an arrow.
        if !is_re_export || words.contains(&name) && !is_own_child(read, path, &name) {
            uses.arrows.insert(absolute.clone());
        }
        uses.imports.insert(name, absolute);
    }
    for written in found.paths {
        let first = &written[0];
        if let Some(import) = uses.imports.get(first) {
            // An imported module, and a name in it.
            let through = import.iter().chain(&written[1..]).cloned().collect();
            if read.modules.contains_key(import) {
                uses.arrows.insert(through);
            }
        } else if let Some(absolute) = from_root(read, path, &written) {
            uses.arrows.insert(absolute);
        }
    }
    uses
}

fn is_own_child(read: &Crate, path: &ModulePath, name: &str) -> bool {
    let mut child = path.clone();
    child.push(name.to_owned());
    read.modules.contains_key(&child)
}

/// The path from the crate's root; `None` if it leads out of the crate.
fn from_root(read: &Crate, here: &ModulePath, written: &[String]) -> Option<Vec<String>> {
    let mut base = here.clone();
    let mut rest = written;
    match written.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &written[1..];
        }
        "self" | "super" => {
            while let Some(first) = rest.first().filter(|word| *word == "self" || *word == "super")
            {
                if first == "super" {
                    base.pop()?;
                }
                rest = &rest[1..];
            }
        }
        child if !is_own_child(read, here, child) => return None,
        _ => {}
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

/// The module whose file defines the item at the path, across re-exports.
pub(crate) fn resolve<'read>(
    read: &'read Crate,
    imports: &BTreeMap<ModulePath, Uses>,
    path: &[String],
    depth: usize,
) -> Option<&'read ModulePath> {
    let (module, _) =
        (0..=path.len()).rev().find_map(|length| read.modules.get_key_value(&path[..length]))?;
    let Some(name) = path.get(module.len()) else { return Some(module) };
    let handed_on = imports.get(module).and_then(|uses| uses.imports.get(name));
    match handed_on {
        Some(target) if depth < 16 && target.as_slice() != path => {
            let further: Vec<_> = target.iter().chain(&path[module.len() + 1..]).cloned().collect();
            resolve(read, imports, &further, depth + 1).or(Some(module))
        }
        _ => Some(module),
    }
}

#[derive(Default)]
struct Visitor {
    /// The name in this module, the path as written, and whether it is re-exported.
    imports: Vec<(String, Written, bool)>,
    paths: Vec<Written>,
}

impl Visitor {
    fn flatten(&mut self, tree: &UseTree, before: &mut Written, is_re_export: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.flatten(&path.tree, before, is_re_export);
                before.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.flatten(tree, before, is_re_export));
            }
            UseTree::Glob(_) => self.imports.push(("*".to_owned(), before.clone(), false)),
            UseTree::Name(name) => self.import(&name.ident.to_string(), None, before, is_re_export),
            UseTree::Rename(name) => {
                let renamed = name.rename.to_string();
                self.import(&name.ident.to_string(), Some(renamed), before, is_re_export);
            }
        }
    }

    fn import(
        &mut self,
        name: &str,
        renamed: Option<String>,
        before: &Written,
        is_re_export: bool,
    ) {
        let mut written = before.clone();
        if name != "self" {
            written.push(name.to_owned());
        }
        let here = renamed.or_else(|| written.last().cloned()).unwrap_or_default();
        self.imports.push((here, written, is_re_export));
    }
}

impl<'file> Visit<'file> for Visitor {
    fn visit_item_use(&mut self, item: &'file ItemUse) {
        let is_re_export = !matches!(item.vis, Visibility::Inherited);
        self.flatten(&item.tree, &mut Vec::new(), is_re_export);
    }

    fn visit_path(&mut self, path: &'file Path) {
        if path.segments.len() > 1 {
            self.paths.push(path.segments.iter().map(|one| one.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    /// The input of a macro is not parsed: paths are found by their tokens.
    fn visit_macro(&mut self, found: &'file syn::Macro) {
        self.visit_path(&found.path);
        collect_paths(found.tokens.clone(), &mut self.paths);
    }
}

/// Words with `::` between them.
fn collect_paths(tokens: TokenStream, paths: &mut Vec<Written>) {
    let (mut path, mut colons) = (Written::new(), 0);
    let mut end = |path: &mut Written| {
        let path = std::mem::take(path);
        if path.len() > 1 {
            paths.push(path);
        }
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(word) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(word.to_string());
                colons = 0;
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            other => {
                end(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    groups.push(group.stream());
                }
            }
        }
    }
    end(&mut path);
    groups.into_iter().for_each(|group| collect_paths(group, paths));
}

fn collect_words(tokens: TokenStream, words: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => drop(words.insert(word.to_string())),
            TokenTree::Group(group) => collect_words(group.stream(), words),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

//! Owners of types: the files that have a type's methods, and files that call one another's methods.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{ExprMethodCall, ExprPath, ImplItem, Item, ItemFn, ItemImpl, Type};

use crate::circles::{Graph, circles_of};
use crate::krate::{Crate, Module};

/// Files of a folder that may have a type's inherent methods. (A folder above may add others.)
const MOST_FILES_OF_A_TYPE: usize = 2;

/// Files that may call one another's methods in a circle: a method's name identifies the file, but not the type.
const MOST_FILES_OF_A_CIRCLE: usize = 3;

/// Files that a folder may have.
const MOST_FILES_OF_A_FOLDER: usize = 30;

/// Methods of standard library types: a call of one of these does not count as a call of a file's method of that name.
const STANDARD: [&str; 25] = [
    "add",
    "all",
    "any",
    "clone",
    "contains",
    "difference",
    "expect",
    "extend",
    "find",
    "finish",
    "from",
    "get",
    "insert",
    "is_empty",
    "iter",
    "last",
    "len",
    "lock",
    "map",
    "now",
    "pop",
    "push",
    "remove",
    "take",
    "wait",
];

/// Describes the broken rules.
pub(crate) fn find(read: &Crate) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut owners: BTreeMap<(&Path, String), BTreeSet<String>> = BTreeMap::new();
    let mut folders: BTreeMap<&Path, Vec<&Module>> = BTreeMap::new();
    for module in read.modules.values() {
        let folder = module.file.parent().unwrap_or(Path::new(""));
        for owned in types_of(&module.items) {
            let files = owners.entry((folder, owned)).or_default();
            files.insert(module.file.display().to_string());
        }
        folders.entry(folder).or_default().push(module);
    }
    for ((_, owned), files) in owners.iter().filter(|(_, files)| files.len() > MOST_FILES_OF_A_TYPE)
    {
        breaches.push(format!(
            "{owned} of {} has methods in {} files\n    {}\n  to fix it: give a part of its state, with the methods that need \
             only that, to a type of its own",
            read.name,
            files.len(),
            files.iter().cloned().collect::<Vec<_>>().join("\n    "),
        ));
    }
    for (folder, modules) in &folders {
        // A folder's root file is shared by its parts.
        let parts: Vec<_> = modules.iter().copied().filter(|module| !is_root(module)).collect();
        breaches.extend(find_circles(read, &parts));
        if modules.len() > MOST_FILES_OF_A_FOLDER {
            breaches.push(format!(
                "{} of {} has {} files: at most {MOST_FILES_OF_A_FOLDER}\n  to fix it: move the files of one part into a folder",
                folder.display(),
                read.name,
                modules.len(),
            ));
        }
    }
    breaches
}

fn is_root(module: &Module) -> bool {
    let stem = module.file.file_stem().unwrap_or_default();
    ["mod", "lib", "main"].iter().any(|name| stem == *name)
}

/// The types that have inherent methods here.
fn types_of(items: &[Item]) -> Vec<String> {
    let owned = |item: &Item| match item {
        Item::Impl(item) if item.trait_.is_none() => match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|name| name.ident.to_string()),
            _ => None,
        },
        _ => None,
    };
    items.iter().filter_map(owned).collect()
}

/// Circles of files of one folder that call one another's methods. A call counts for a file if no other file of the folder has a
/// function of that name.
fn find_circles(read: &Crate, modules: &[&Module]) -> Vec<String> {
    let names: Vec<Names> = modules.iter().map(|module| Names::of(&module.items)).collect();
    let keys: Vec<[String; 1]> =
        modules.iter().map(|module| [module.file.display().to_string()]).collect();
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, names) in names.iter().enumerate() {
        for name in names.defined.iter().filter(|name| !STANDARD.contains(&name.as_str())) {
            places.entry(name).or_default().push(at);
        }
    }
    let called = |at: usize| {
        let of_one = |name: &String| match places.get(name.as_str()).map(Vec::as_slice) {
            Some([other]) if *other != at => Some((*other, name.clone())),
            _ => None,
        };
        names[at].called.iter().filter_map(of_one).collect::<Vec<_>>()
    };
    let graph: Graph<'_> = (0..modules.len())
        .map(|at| {
            let to = called(at).into_iter().map(|(other, _)| keys[other].as_slice()).collect();
            (keys[at].as_slice(), to)
        })
        .collect();
    let circles = circles_of(&graph);
    let large = circles.iter().filter(|circle| circle.len() > MOST_FILES_OF_A_CIRCLE);
    large
        .map(|circle| {
            let mut text =
                format!("{} files of {} call one another in a circle", circle.len(), read.name);
            for at in (0..modules.len()).filter(|at| circle.contains(keys[*at].as_slice())) {
                for (other, name) in called(at) {
                    if circle.contains(keys[other].as_slice()) {
                        text +=
                            &format!("\n    {} calls {name} of {}", keys[at][0], keys[other][0]);
                    }
                }
            }
            text + "\n  to fix it: have a part return what happened, instead of calling back"
        })
        .collect()
}

/// Names of functions that a file has, and that it calls.
#[derive(Default)]
struct Names {
    defined: BTreeSet<String>,
    called: BTreeSet<String>,
}

impl Names {
    fn of(items: &[Item]) -> Self {
        let mut names = Self::default();
        items.iter().for_each(|item| names.visit_item(item));
        names
    }
}

impl Visit<'_> for Names {
    fn visit_item_fn(&mut self, item: &ItemFn) {
        self.defined.insert(item.sig.ident.to_string());
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &ItemImpl) {
        // A trait's methods are called wherever the trait is known.
        for method in item.items.iter().filter(|_| item.trait_.is_none()) {
            if let ImplItem::Fn(method) = method {
                self.defined.insert(method.sig.ident.to_string());
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        self.called.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_path(&mut self, path: &ExprPath) {
        // `Type::method`, called or passed as a value.
        if path.path.segments.len() > 1
            && let Some(last) = path.path.segments.last()
        {
            self.called.insert(last.ident.to_string());
        }
        visit::visit_expr_path(self, path);
    }
}

//! A crate's files, by module.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, Meta};

/// The path of a module from the crate's root, without `crate`.
pub(crate) type ModulePath = Vec<String>;

/// A crate without its tests.
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) modules: BTreeMap<ModulePath, Module>,
}

/// A module that is a file.
pub(crate) struct Module {
    /// From the crate's folder.
    pub(crate) file: PathBuf,
    /// Its items, tests left out.
    pub(crate) items: Vec<Item>,
}

impl Crate {
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut read = Self { name, modules: BTreeMap::new() };
        for root in ["src/lib.rs", "src/main.rs"] {
            if folder.join(root).exists() {
                read.read_module(folder, Path::new(root), Vec::new())?;
            }
        }
        Ok(read)
    }

    fn read_module(&mut self, folder: &Path, file: &Path, path: ModulePath) -> Result<(), String> {
        let full = folder.join(file);
        let text = fs::read_to_string(&full).map_err(|error| format!("{full:?}: {error}"))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{full:?}: {error}"))?;
        let items: Vec<_> = parsed.items.into_iter().filter(|item| !is_test(item)).collect();
        // Files of child modules are beside `mod.rs` and the roots, and otherwise in a folder with this module's name.
        let stem = file.file_stem().unwrap_or_default();
        let beside = file.parent().unwrap_or(Path::new(""));
        let is_root = ["mod", "lib", "main"].iter().any(|name| stem == *name);
        let children = if is_root { beside.to_owned() } else { beside.join(stem) };
        for item in &items {
            let Item::Mod(module) = item else { continue };
            if module.content.is_some() {
                continue;
            }
            let name = module.ident.to_string();
            let flat = children.join(format!("{name}.rs"));
            let nested = children.join(&name).join("mod.rs");
            let child = if folder.join(&flat).exists() { flat } else { nested };
            let mut child_path = path.clone();
            child_path.push(name);
            self.read_module(folder, &child, child_path)?;
        }
        // If a crate has a library and a program, the library's root stands for it.
        self.modules.entry(path).or_insert(Module { file: file.to_owned(), items });
        Ok(())
    }
}

/// True if the item is compiled only for tests.
fn is_test(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(is_cfg_test)
}

/// `#[cfg(test)]`, and `#[cfg(all(test, …))]`.
fn is_cfg_test(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let tokens = list.tokens.to_string();
    list.path.is_ident("cfg") && (tokens == "test" || tokens.starts_with("all (test"))
}

//! Type names that a crate has twice.

use std::collections::BTreeMap;

use syn::{Ident, Item};

use crate::krate::Crate;

/// Each name that is defined in more than one place, in words.
pub(crate) fn find_doubles(read: &Crate) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for module in read.modules.values() {
        let file = module.file.display().to_string();
        let mut place = |name: &Ident| {
            places.entry(name.to_string()).or_default().push(file.clone());
        };
        module.items.iter().for_each(|item| each_type(item, &mut place));
    }
    // Arguments of a command: by the parser's convention, one struct in each of its modules.
    let doubles = places.into_iter().filter(|(name, files)| files.len() > 1 && name != "Args");
    doubles
        .map(|(name, files)| {
            format!(
                "{} has {} types of the name {name}\n    {}\n  to fix it: give each the name of what it is, as \
                 docs/GLOSSARY.md does",
                read.name,
                files.len(),
                files.join("\n    "),
            )
        })
        .collect()
}

/// Visits the structs, enums, unions and traits of an item, including inline modules. Aliases do not count.
fn each_type(item: &Item, tell: &mut impl FnMut(&Ident)) {
    match item {
        Item::Struct(item) => tell(&item.ident),
        Item::Enum(item) => tell(&item.ident),
        Item::Union(item) => tell(&item.ident),
        Item::Trait(item) => tell(&item.ident),
        Item::Mod(item) => {
            let inner = item.content.iter().flat_map(|(_, items)| items);
            inner.for_each(|item| each_type(item, tell));
        }
        _ => {}
    }
}

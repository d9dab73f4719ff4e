//! Public functions and methods whose documentation has no program.

use syn::{Attribute, Expr, ExprLit, ImplItem, Item, Lit, Meta, Type, Visibility};

use crate::krate::{Crate, ModulePath};

/// The crates that users write against, and the types whose methods each need an example. Free functions also need one.
const SHOWN: [(&str, &[&str]); 2] = [
    (
        "coreshard-workqueue",
        &[
            "Builder",
            "CancellationToken",
            "JoinHandle",
            "JoinSet",
            "MemberThread",
            "Periodic",
            "Runtime",
            "RuntimeBuilder",
            "Task",
            "Team",
            "TeamBuilder",
            "TeamScope",
            "Work",
            "WorkScope",
            "Workqueue",
        ],
    ),
    ("coreshard", &[]),
];

/// Modules that are not for users, or whose functions repeat others that have the examples.
const OWN: [&str; 2] = ["canary", "simulated"];

/// How many functions and methods have an example, and each that has none, in words.
pub(crate) fn find_missing(read: &Crate) -> (usize, Vec<String>) {
    let Some((_, types)) = SHOWN.iter().find(|(name, _)| *name == read.name) else {
        return (0, Vec::new());
    };
    let (mut shown, mut missing) = (0, Vec::new());
    let modules = read.modules.iter().filter(|(path, _)| !is_own(path));
    for (_, module) in modules {
        let mut look = |owner: Option<&str>, name: &str, attributes: &[Attribute]| {
            if attributes.iter().any(is_hidden) {
                return;
            }
            if has_example(attributes) {
                shown += 1;
                return;
            }
            let what = owner.map_or_else(|| name.to_owned(), |owner| format!("{owner}::{name}"));
            missing.push(format!(
                "{} has no example for {what}\n    {}\n  to fix it: end its documentation with a program that runs, \
                 as a user would write it",
                read.name,
                module.file.display(),
            ));
        };
        for item in &module.items {
            match item {
                Item::Fn(item) if is_public(&item.vis) => {
                    look(None, &item.sig.ident.to_string(), &item.attrs);
                }
                Item::Impl(item) if item.trait_.is_none() => {
                    let Some(owner) = name_of(&item.self_ty) else { continue };
                    if !types.contains(&owner.as_str()) {
                        continue;
                    }
                    for part in &item.items {
                        let ImplItem::Fn(method) = part else { continue };
                        if is_public(&method.vis) {
                            look(Some(&owner), &method.sig.ident.to_string(), &method.attrs);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    (shown, missing)
}

fn is_own(path: &ModulePath) -> bool {
    path.iter().any(|part| OWN.contains(&part.as_str()))
}

/// `#[doc(hidden)]`
fn is_hidden(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    list.path.is_ident("doc") && list.tokens.to_string() == "hidden"
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn name_of(of: &Type) -> Option<String> {
    let Type::Path(path) = of else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// True if the documentation has a block of Rust code that is run.
fn has_example(attributes: &[Attribute]) -> bool {
    let lines = attributes.iter().filter_map(doc_line);
    let mut is_open = false;
    let mut has = false;
    for line in lines {
        let Some(words) = line.trim_start().strip_prefix("```") else { continue };
        has |= !is_open && matches!(words.trim(), "" | "rust" | "should_panic");
        is_open = !is_open;
    }
    has
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
    pair.path.is_ident("doc").then(|| text.value())
}

//! Finds the crate of a function on the stack, from the program's debug information.

use std::path::Path;

/// Crates between any program and the simulator.
const BELOW: [&str; 6] = ["core", "std", "alloc", "corosensei", "coreshard_sim", "backtrace"];

/// Returns whether a function belongs to none of the language, the simulator, and crates that are
/// `also_below`. Returns `None` if it is not Rust.
pub(crate) fn is_programs_own(
    name: &str,
    file: Option<&Path>,
    also_below: &[&str],
) -> Option<bool> {
    let found = crate_of(name, file)?;
    Some(!BELOW.iter().chain(also_below).any(|below| *below == found))
}

/// Returns the crate of a function. With full debug information, names are paths. With line tables only
/// (`debug = "line-tables-only"`), they are bare words, and the file determines the crate:
/// `corosensei-0.3.2/src/coroutine.rs` belongs to `corosensei`. A file outside any `src` belongs to a
/// program's tests or examples, whose crate gets an empty name. Returns `None` if the function is not Rust.
fn crate_of(name: &str, file: Option<&Path>) -> Option<String> {
    if let Some(found) = first_of_path(name) {
        return Some(found.to_owned());
    }
    let file = file.filter(|file| file.extension().is_some_and(|it| it == "rs"))?;
    let folders: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let source = folders.iter().rposition(|part| part == "src");
    let folder = source.and_then(|at| folders.get(at.checked_sub(1)?)).map(|part| &**part);
    Some(without_version(folder.unwrap_or_default()).replace('-', "_"))
}

/// Returns `a` for `<a::B as c::D>::e`. Returns `None` for a name that is not a path, such as a C function's.
fn first_of_path(name: &str) -> Option<&str> {
    let name = name.trim_start_matches(['<', '&', '[', '(', '*']);
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    name[end..].starts_with("::").then_some(&name[..end])
}

/// Removes the version from a folder of a registry, such as `mail-box-0.3.0`.
fn without_version(folder: &str) -> &str {
    let is_version =
        |text: &str| text.split_once('.').is_some_and(|(major, _)| major.parse::<u64>().is_ok());
    let version = folder.match_indices('-').find(|(at, _)| is_version(&folder[at + 1..]));
    version.map_or(folder, |(at, _)| &folder[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_of_its_crate() {
        for (name, file, krate) in [
            ("mail::send::{{closure}}", None, Some("mail")),
            ("<core::option::Option<T> as mail::Send>::send", None, Some("core")),
            ("clone", None, None),
            ("__libc_start_main", Some("./csu/libc-start.c"), None),
            ("send", Some("mail/src/send.rs"), Some("mail")),
            ("send", Some("mail/tests/send.rs"), Some("")),
            ("{closure#0}", Some("src/mail-box-0.3.0-rc.1/src/send.rs"), Some("mail_box")),
            (
                "resume<A, B>",
                Some("registry/src/index-1/corosensei-0.3.2/src/c.rs"),
                Some("corosensei"),
            ),
            ("call_once<A>", Some("/rustc/59807/library/core/src/ops/function.rs"), Some("core")),
        ] {
            assert_eq!(crate_of(name, file.map(Path::new)).as_deref(), krate, "{name} {file:?}");
        }
    }
}

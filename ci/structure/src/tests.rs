//! Small checkouts, in order and broken.

use std::fs;
use std::path::Path;

use super::check;

/// The broken rules in a checkout of one crate with these files.
fn broken(files: &[(&str, &str)]) -> Vec<String> {
    broken_in("one", files)
}

/// The same, for a crate with this name.
fn broken_in(name: &str, files: &[(&str, &str)]) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("crates").join(name);
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "");
    files.iter().for_each(|(name, text)| write(name, text));
    check(root.path()).unwrap().2
}

#[test]
fn files_that_use_those_below_them_alone_are_in_order() {
    let files = [
        ("src/lib.rs", "mod high; mod low; pub use high::High;"),
        ("src/low.rs", "pub(crate) struct Low; // use crate::high::High;"),
        ("src/high/mod.rs", "mod part; pub use part::High; pub(crate) use crate::low::Low;"),
        ("src/high/part.rs", "use super::Low; pub struct High(Low);"),
    ];
    assert_eq!(broken(&files), Vec::<String>::new());
}

#[test]
fn two_files_that_use_each_other_are_a_circle() {
    let by_use = ("src/b.rs", "use crate::a::A; pub struct B(A);");
    let by_path = ("src/b.rs", "pub struct B(crate::a::A);");
    let by_module = ("src/b.rs", "use crate::a; pub struct B(a::A);");
    let by_macro = ("src/b.rs", "pub struct B; fn f() { let _ = vec![(1, crate::a::A::new())]; }");
    for b in [by_use, by_path, by_module, by_macro] {
        let files = [
            ("src/lib.rs", "mod a; mod b;"),
            ("src/a.rs", "pub struct A(Option<Box<super::b::B>>);"),
            b,
        ];
        let found = broken(&files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("2 files of one form a circle"), "{found:?}");
        assert!(found[0].contains("src/a.rs uses B of src/b.rs"), "{found:?}");
        assert!(found[0].contains("to fix it"), "{found:?}");
    }
}

#[test]
fn a_circle_through_what_a_third_hands_on_is_found() {
    let files = [
        ("src/lib.rs", "mod a; mod b; pub use b::B;"),
        ("src/a.rs", "use crate::B; pub struct A(B);"),
        ("src/b.rs", "use super::a::A; pub struct B(Option<Box<A>>);"),
    ];
    assert_eq!(broken(&files).len(), 1);
}

#[test]
fn a_module_that_uses_its_child_and_is_used_by_it_is_a_circle() {
    let files = [
        ("src/lib.rs", "mod m;"),
        ("src/m/mod.rs", "mod child; use child::Child; pub struct Parent(Option<Box<Child>>);"),
        ("src/m/child.rs", "use super::Parent; pub struct Child(Parent);"),
    ];
    assert_eq!(broken(&files).len(), 1);
}

#[test]
fn folders_that_use_those_below_them_alone_are_in_order() {
    let files = [
        ("src/lib.rs", "mod high; mod low;"),
        ("src/high/mod.rs", "mod a; mod b;"),
        ("src/high/a.rs", "pub(crate) struct A(crate::low::C);"),
        ("src/high/b.rs", "struct B(super::a::A, crate::low::D);"),
        ("src/low/mod.rs", "mod c; mod d; pub(crate) use c::C; pub(crate) use d::D;"),
        ("src/low/c.rs", "pub(crate) struct C;"),
        ("src/low/d.rs", "pub(crate) struct D(super::C);"),
    ];
    assert_eq!(broken(&files), Vec::<String>::new());
}

#[test]
fn two_folders_that_use_each_other_are_a_circle_though_no_files_are() {
    let left = [
        ("src/left/mod.rs", "pub(crate) mod a; mod b;"),
        ("src/left/a.rs", "pub(crate) struct A;"),
        ("src/left/b.rs", "struct B(crate::right::C);"),
    ];
    let right = ("src/right.rs", "pub(crate) struct C(crate::left::a::A);");
    let mut files = vec![("src/lib.rs", "mod left; mod right;"), right];
    files.extend(left);
    let found = broken(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("modules of one form a circle: left, right"), "{found:?}");
    assert!(found[0].contains("src/left/b.rs uses C of src/right.rs"), "{found:?}");
    assert!(found[0].contains("src/right.rs uses A of src/left/a.rs"), "{found:?}");
    assert!(found[0].contains("to fix it"), "{found:?}");
}

#[test]
fn a_circle_of_folders_within_a_folder_is_found() {
    let files = [
        ("src/lib.rs", "mod m;"),
        ("src/m/mod.rs", "mod left; mod right;"),
        ("src/m/left/mod.rs", "pub(crate) mod a; mod b;"),
        ("src/m/left/a.rs", "pub(crate) struct A;"),
        ("src/m/left/b.rs", "struct B(super::super::right::C);"),
        ("src/m/right.rs", "use super::left::a; pub(crate) struct C(a::A);"),
    ];
    let found = broken(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("form a circle: m::left, m::right"), "{found:?}");
}

/// A crate with a folder that imports this many of its neighbours.
fn room_of(neighbours: usize) -> Vec<String> {
    let names: Vec<_> = (0..neighbours).map(|number| format!("n{number}")).collect();
    let list = |each: &dyn Fn(&String) -> String| names.iter().map(each).collect::<String>();
    let (root, user) = (
        format!("mod user; {}", list(&|name| format!("mod {name};"))),
        format!("mod part; {}", list(&|name| format!("use crate::{name}::T as A{name};"))),
    );
    let paths: Vec<_> = names.iter().map(|name| format!("src/{name}.rs")).collect();
    let mut files = vec![
        ("src/lib.rs", root.as_str()),
        ("src/user/mod.rs", user.as_str()),
        // A neighbour that is imported twice counts once, and files within the folder do not count.
        ("src/user/part.rs", "struct Part(crate::n0::T);"),
    ];
    files.extend(paths.iter().map(|path| (path.as_str(), "type T = u8;")));
    broken(&files)
}

#[test]
fn a_module_may_import_seven_neighbours() {
    assert_eq!(room_of(7), Vec::<String>::new());
}

#[test]
fn a_module_that_imports_eight_neighbours_is_found() {
    let found = room_of(8);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("user of one imports 8 of its neighbours"), "{found:?}");
    assert!(found[0].contains("n0, n1, n2, n3, n4, n5, n6, n7"), "{found:?}");
    assert!(found[0].contains("to fix it"), "{found:?}");
}

#[test]
fn tests_may_use_what_they_like() {
    let files = [
        ("src/lib.rs", "mod a; #[cfg(test)] mod tests; #[cfg(all(test, loom))] mod models;"),
        ("src/a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::tests::T; struct T2(T); }"),
        ("src/tests.rs", "pub(crate) struct T(crate::a::A); struct A;"),
        ("src/models.rs", "struct A(crate::a::A);"),
    ];
    assert_eq!(broken(&files), Vec::<String>::new());
}

#[test]
fn a_name_that_two_types_have_is_found() {
    let files = [
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "enum State { A } struct Args;"),
        ("src/b.rs", "mod inline { struct State; } struct Args; type Inner = u8;"),
    ];
    let found = broken(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("2 types of the name State"), "{found:?}");
}

#[test]
fn a_folder_without_crates_is_an_error() {
    assert!(check(Path::new("/nowhere")).unwrap_err().contains("/nowhere"));
}

/// A method of a type that users write against, and a free function, with these lines of documentation.
fn undocumented(doc: &str) -> Vec<String> {
    let text = format!(
        "pub struct Work; impl Work {{\n{doc}\npub fn flush(&self) {{}} }}\n{doc}\npub fn join() {{}}"
    );
    broken_in("coreshard-workqueue", &[("src/lib.rs", &text)])
}

#[test]
fn what_a_user_calls_has_an_example() {
    let shown = "/// Waits.\n/// ```\n/// work.flush();\n/// ```";
    assert_eq!(undocumented(shown), Vec::<String>::new());
    let texts = [
        "/// Waits.",
        "/// ```text\n/// a picture\n/// ```",
        "/// ```ignore\n/// work.flush();\n/// ```",
        "// ```",
    ];
    for doc in texts {
        let found = undocumented(doc);
        assert_eq!(found.len(), 2, "{doc}: {found:?}");
        assert!(
            found.iter().any(|breach| breach.contains("no example for Work::flush")),
            "{found:?}"
        );
        assert!(found.iter().any(|breach| breach.contains("no example for join")), "{found:?}");
        assert!(found[0].contains("src/lib.rs") && found[0].contains("to fix it"), "{found:?}");
    }
}

#[test]
fn what_no_user_calls_needs_no_example() {
    let text = "pub struct Work; struct Core; impl Work { pub(crate) fn claim(&self) {} fn own(&self) {} } \
        impl Core { pub fn run(&self) {} } #[doc(hidden)] pub fn f() {} impl Clone for Work { fn clone(&self) -> Self { Work } } fn free() {}";
    assert_eq!(broken_in("coreshard-workqueue", &[("src/lib.rs", text)]), Vec::<String>::new());
    assert_eq!(broken(&[("src/lib.rs", "pub fn of_another_crate() {}")]), Vec::<String>::new());
}

#[test]
fn a_type_whose_methods_lie_in_three_files_is_found() {
    let part = |name: &str| format!("use crate::one::One; impl One {{ fn {name}(&self) {{}} }}");
    let (two, three) = (part("two"), part("three"));
    let mut files = vec![
        ("src/lib.rs", "mod one; mod two; mod three;"),
        ("src/one.rs", "pub struct One; impl One { fn one(&self) {} } impl Clone for One {}"),
        ("src/two.rs", two.as_str()),
        ("src/three.rs", "use crate::one::One; impl Drop for One { fn drop(&mut self) {} }"),
    ];
    assert_eq!(broken(&files), Vec::<String>::new(), "two files, and a trait's method");
    files[3].1 = &three;
    let found = broken(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("One of one has methods in 3 files"), "{found:?}");
    assert!(found[0].contains("src/three.rs"), "{found:?}");
}

/// Imports do not show it: the methods belong to one type, which all of these files import.
#[test]
fn files_that_call_one_another_in_a_circle_are_found() {
    let file = |own: &str, other: &str| {
        format!("use crate::low::Low; pub fn {own}(low: &Low) {{ low.of_{other}(); }}")
    };
    let low = "pub struct Low; pub trait Calls { fn none(&self); }";
    let texts: Vec<_> = [("one", "two"), ("two", "three"), ("three", "four"), ("four", "one")]
        .iter()
        .map(|(own, other)| file(&format!("of_{own}"), other))
        .collect();
    let mut files =
        vec![("src/lib.rs", "mod low; mod a; mod b; mod c; mod d;"), ("src/low.rs", low)];
    files.extend(
        ["src/a.rs", "src/b.rs", "src/c.rs", "src/d.rs"]
            .into_iter()
            .zip(texts.iter().map(String::as_str)),
    );
    let found = broken(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("4 files of one call one another in a circle"), "{found:?}");
    assert!(found[0].contains("src/a.rs calls of_two of src/b.rs"), "{found:?}");
    files[5].1 = "pub fn of_four() {}";
    assert_eq!(broken(&files), Vec::<String>::new());
}

#[test]
fn a_folder_of_many_files_is_found() {
    let names: Vec<_> = (0..30).map(|at| format!("src/m{at}.rs")).collect();
    let root: String = (0..30).map(|at| format!("mod m{at};")).collect();
    let mut files = vec![("src/lib.rs", root.as_str())];
    files.extend(names.iter().map(|name| (name.as_str(), "")));
    let found = broken(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("31 files"), "{found:?}");
}

#[test]
fn adapters_and_bindings_are_looked_at_as_well() {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("crates/one/Cargo.toml", ""),
        ("crates/one/src/lib.rs", ""),
        ("adapters/two/Cargo.toml", ""),
        ("adapters/two/src/lib.rs", "mod a; mod b;"),
        ("adapters/two/src/a.rs", "pub struct A(Option<Box<super::b::B>>);"),
        ("adapters/two/src/b.rs", "pub struct B(super::a::A);"),
    ] {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let found = check(root.path()).unwrap().2;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("2 files of two form a circle"), "{found:?}");
}

//! Small checkouts, in order and broken.

use std::fs;
use std::path::Path;

use super::check;

/// What is broken in a checkout of one crate with these files.
fn broken(files: &[(&str, &str)]) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("crates/one");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "");
    files.iter().for_each(|(name, text)| write(name, text));
    check(root.path()).unwrap().1
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
        assert!(found[0].contains("to mend it"), "{found:?}");
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

//! `coreshard.h` is generated from the sources by cbindgen; `CORESHARD_UPDATE=1` writes it. The library exports exactly
//! the declarations of the header.

use std::collections::BTreeSet;
use std::path::Path;

testing::watch!();

#[test]
fn the_header_is_fresh() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    // The crate's root brings its modules along; by itself, so that nothing asks cargo for anything.
    let root = here.join("src/lib.rs");
    let builder = cbindgen::Builder::new().with_config(config).with_src(root);
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = here.join("include/coreshard.h");
    if std::env::var_os("CORESHARD_UPDATE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap();
    assert!(there == made, "coreshard.h is old; run: CORESHARD_UPDATE=1 cargo test -p coreshard-c");
}

#[test]
fn the_symbols_of_the_map_are_those_of_the_header() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = std::fs::read_to_string(here.join("include/coreshard.h")).unwrap();
    let map = std::fs::read_to_string(here.join("coreshard.map")).unwrap();
    let exported: BTreeSet<String> = map
        .lines()
        .filter_map(|line| Some(line.trim().strip_suffix(';')?.to_owned()))
        .filter(|name| name.starts_with("cs_"))
        .collect();
    let declared: Vec<String> = header
        .lines()
        .filter(|line| {
            !line.starts_with([' ', '*', '#', '/', '}'])
                && !line.starts_with("typedef")
                && line.contains('(')
        })
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("cs_"))
        .map(str::to_owned)
        .collect();
    let each: BTreeSet<String> = declared.iter().cloned().collect();
    assert!(each.len() > 40, "{each:?}");
    assert_eq!(declared.len(), each.len(), "a function is declared once");
    assert_eq!(exported, each, "coreshard.map gives each function of the header a version");
}

/// Each name of the kernel's in the header is in the table, and each test that the table names is run.
#[test]
fn each_name_of_the_kernels_is_in_the_table_with_its_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(here.join(name)).unwrap();
    let declared = names_of(&read("include/coreshard/kernel_workqueue.h"));
    assert!(declared.len() > 100, "{declared:?}");
    let tests = read("tests/kernel_operations.c");
    let words: BTreeSet<&str> =
        tests.split(|letter: char| !letter.is_alphanumeric() && letter != '_').collect();
    let mut known = BTreeSet::new();
    let table = read("KERNEL-NAMES.md");
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [names, keeps, shown_by] = cells[..] else { panic!("{row}: not three cells") };
        assert!(keeps.trim().len() > 10, "{row}: says nothing");
        let quoted = |cell: &str| -> Vec<String> {
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
        };
        assert!(!quoted(shown_by).is_empty(), "{row}: no test");
        for test in quoted(shown_by) {
            assert!(tests.contains(&format!("ROW({test})")), "{row}: {test} is not run");
        }
        for name in quoted(names) {
            let name = name.rsplit(' ').next().unwrap().to_owned();
            assert!(words.contains(name.as_str()), "{row}: no test uses {name}");
            assert!(known.insert(name.clone()), "{name} is listed twice");
        }
    }
    let missing: Vec<_> = declared.difference(&known).collect();
    let gone: Vec<_> = known.difference(&declared).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "not in the table: {missing:?}; not in the header: {gone:?}"
    );
}

/// Macros, functions, types and enumerators that a header gives, but for the library's own.
fn names_of(header: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let last = |text: &str| text.rsplit([' ', '*', ')']).next().unwrap_or_default().to_owned();
    let mut names = BTreeSet::new();
    let mut in_comment = false;
    for line in header.lines() {
        if in_comment || line.trim_start().starts_with("/*") {
            in_comment = !line.contains("*/");
            continue;
        }
        if let Some(macro_) = line.strip_prefix("#define ") {
            names.insert(word(macro_));
        } else if let Some(rest) = line.strip_prefix("typedef ") {
            match rest.split_once("(*") {
                Some((_, function)) => names.insert(word(function)),
                None => names.insert(last(rest.trim_end_matches(';'))),
            };
        } else if line.starts_with("struct ") || line.starts_with("enum ") {
            names.insert(word(line.split(' ').nth(1).unwrap_or_default()));
            // Those of an enumeration in one line.
            let inner = line.split_once('{').map_or("", |(_, inner)| inner);
            names.extend(
                inner.split(',').filter(|each| each.contains('=')).map(|each| word(each.trim())),
            );
        } else if line.starts_with("\t")
            && !line.starts_with("\t\t")
            && line.ends_with(',')
            && line.contains(" = ")
        {
            names.insert(word(line.trim()));
        } else if !line.starts_with(['\t', '#', '}', '{', ' ', '_']) && line.contains('(') {
            names.insert(last(line.split('(').next().unwrap_or_default()));
        }
    }
    names.retain(|name| {
        !name.is_empty()
            && !name.to_lowercase().starts_with("cs_")
            && !name.starts_with("CORESHARD")
    });
    names
}

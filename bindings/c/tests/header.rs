//! `coreshard.h` is what cbindgen makes of the sources; `CORESHARD_UPDATE=1` writes it. And what the library exports is
//! what the header declares.

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
            !line.starts_with([' ', '*', '#', '/']) && line.contains('(') && !line.contains("(*")
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

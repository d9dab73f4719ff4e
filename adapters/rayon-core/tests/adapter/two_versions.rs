//! A program that would have both this package and another rayon-core: cargo rejects it before compiling. Only for this
//! rayon-core.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A temporary folder for a test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // An earlier run may have left it.
        _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Resolves a package that depends on this one and on another major version of the same name, whose manifest has these lines.
fn resolved(scratch: &Scratch, lines: &str) -> Output {
    let here = env!("CARGO_MANIFEST_DIR");
    let program = format!(
        "[package]\nname = \"mixed\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n\
         rayon-core = {{ path = {here:?} }}\nother = {{ package = \"rayon-core\", path = \"other\" }}\n"
    );
    scratch.write("Cargo.toml", &program);
    scratch.write("src/main.rs", "fn main() {}\n");
    let other = format!(
        "[package]\nname = \"rayon-core\"\nversion = \"2.0.0\"\nedition = \"2021\"\n{lines}"
    );
    scratch.write("other/Cargo.toml", &other);
    scratch.write("other/src/lib.rs", "");
    scratch.write("other/build.rs", "fn main() {}\n");
    // The same versions as here: all of them are already available offline.
    std::fs::copy(format!("{here}/../../Cargo.lock"), scratch.0.join("Cargo.lock")).unwrap();
    Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        .current_dir(&scratch.0)
        .output()
        .unwrap()
}

#[test]
fn another_major_version_beside_this_one_is_named_by_cargo() {
    let scratch = Scratch::new("two-versions");
    let told = resolved(&scratch, "links = \"rayon-core\"\n");
    let text = String::from_utf8_lossy(&told.stderr);
    assert!(!told.status.success(), "{text}");
    // The message has both versions and the reason.
    let parts = ["1.13.0", "rayon-core v2.0.0", "links to `rayon-core` as well"];
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// The same program is accepted if the other package does not declare `links`.
#[test]
fn what_has_no_scheduler_of_that_name_is_let_in() {
    let scratch = Scratch::new("one-version");
    let told = resolved(&scratch, "");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}

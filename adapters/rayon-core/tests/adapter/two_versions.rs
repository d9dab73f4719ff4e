//! A program that would have this package and another rayon-core beside it: cargo says so before anything is compiled. Of
//! this rayon-core alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own for a test, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // What an earlier run may have left.
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

/// A package that depends on this one, and on one of the same name of another major version, which has these lines.
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
    // The same versions as here: all of them are on this machine already.
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
    // Who wants which, and why not.
    let parts = ["1.13.0", "rayon-core v2.0.0", "links to `rayon-core` as well"];
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// The same program is none to be refused where the other package says nothing of a scheduler that is there once.
#[test]
fn what_has_no_scheduler_of_that_name_is_let_in() {
    let scratch = Scratch::new("one-version");
    let told = resolved(&scratch, "");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
}

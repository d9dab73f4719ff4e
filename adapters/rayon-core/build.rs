//! Cargo requires a build script for a package with `links`. This one also fails early on systems that the crate does not
//! support, with a short message instead of many compiler errors.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if system != "linux" {
        println!(
            "cargo::error=this rayon-core runs on Coreshard, which runs on Linux alone, not on {system}: take its line \
             out of [patch.crates-io], and give the patch to cargo where it builds for Linux, with \
             --config 'patch.crates-io.rayon-core.path=\"...\"'"
        );
    }
}

//! Cargo wants a build script of a package that has `links`. This one also says where the crate is of no use, before
//! the compiler would, at length.

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

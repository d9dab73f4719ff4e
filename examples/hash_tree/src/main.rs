//! Hashes every regular file below a folder.
fn main() {}

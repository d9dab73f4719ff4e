//! Coreshard for C: `coreshard.h` is generated from this crate's public items, and `README.md` describes its use.
//!
//! There is no queue logic here. Each function converts its arguments, calls the crate `coreshard`, and converts the
//! result: 0, or 1 as documented, or a negative errno with a message in `cs_last_error`. Panics are caught
//! (`error::guard`).
#![allow(unsafe_code, clippy::missing_safety_doc)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "public items are for C: cbindgen reads them, and no Rust code calls them"
)]

mod block;
mod block_host;
mod call;
mod check;
mod error;
mod fork;
mod given;
mod process;
mod queue;
mod rt;
mod stats;
mod topology;
mod work;

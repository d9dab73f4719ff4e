//! Coreshard for C: `coreshard.h` is made of this crate's public items, and `README.md` tells how it is used.
//!
//! There is no logic of queues here. Each function reads what C gives, calls the crate `coreshard`, and tells the
//! outcome: 0, or 1 where something was done that need not have been; or a negative errno, with a sentence in
//! `cs_last_error`. No panic leaves it (`error::guard`).
#![allow(unsafe_code, clippy::missing_safety_doc)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "what is public here is for C: cbindgen reads it, and no Rust code calls it"
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

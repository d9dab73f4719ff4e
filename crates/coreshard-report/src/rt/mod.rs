//! What the benchmarks of real time measured: tables for a terminal or a text file, and a page.

mod page;
mod text;

pub use page::{cyclic_page, index_page, pi_page, transcode_page};
pub(crate) use page::{dots, per_sec};
pub use text::{cyclic, index, pi, transcode};

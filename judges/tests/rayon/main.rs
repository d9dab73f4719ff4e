//! The tests of rayon's parallel iterators that also test fork and join.
//!
//! The names and assertions are from rayon (<https://github.com/rayon-rs/rayon>, MIT or Apache-2.0):
//! `src/iter/test.rs`, `src/iter/collect/test.rs`, `src/slice/test.rs`, and `tests`. The text is ours. Coreshard has no
//! parallel iterators; the tests use `for_each_mut`, `for_each_range`, and functions made from `join` in [`iter`]
//! instead.

mod collect;
mod find;
mod iter;
mod slices;
mod sort;
mod trees;
mod whole;

testing::watch!();

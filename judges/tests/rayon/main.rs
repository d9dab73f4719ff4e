//! The tests of rayon's parallel iterators, as far as they ask something of the fork and join below.
//!
//! The names and what they assert are from rayon (<https://github.com/rayon-rs/rayon>, MIT or
//! Apache-2.0): `src/iter/test.rs`, `src/iter/collect/test.rs`, `src/slice/test.rs`, and `tests`. The text is
//! ours. Coreshard has no parallel iterators; what stands in for them here is `for_each_mut`,
//! `for_each_range`, and what `join` makes of them in [`iter`].

mod collect;
mod find;
mod iter;
mod slices;
mod sort;
mod trees;
mod whole;

testing::watch!();

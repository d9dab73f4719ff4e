//! The platform as other crates see it.

mod auto_traits;
mod forked_process;

testing::watch!();

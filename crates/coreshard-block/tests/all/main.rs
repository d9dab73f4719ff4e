//! Block I/O on memory, files and devices that fail.

mod attacks;
mod campaign;
mod failures;
mod forbidden;
mod forked_process;
mod kills;

testing::watch!();

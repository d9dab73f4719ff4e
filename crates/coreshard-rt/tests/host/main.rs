//! Real time on this machine's threads.

mod executor;
mod forked_process;
mod growth;
mod limits;
mod stops;
mod support;
mod thrown;
mod undone;

testing::watch!();

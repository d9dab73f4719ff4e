//! The command as its users call it.

mod advise;
mod advise_handed_over;
mod bench_block;
mod bench_block_overwrite;
mod bench_block_words;
mod bench_queue;
mod bench_rt;
mod commands;
mod common;
mod contend;
mod contributing;
mod edges;
mod fuzz_corpus;
mod kernel;
mod layout;
mod machines;
mod record;
#[path = "../../../coreshard-advise/tests/common/mod.rs"]
mod recordings;
mod shown;
mod simulated;
mod simulated_delays;
mod site;
mod sweep;
mod terminal;
mod top;
mod topo;

testing::watch!();

#[global_allocator]
static ALLOCATOR: coreshard_sim::SimAlloc = coreshard_sim::SimAlloc;

//! Each program, run over loopback or pipes with a small load, and what it answers.

mod batch_writer;
mod child;
mod debounced_cache;
mod directory_sizes;
mod http;
mod hyper_server;
mod pipeline;
mod web_service;

testing::watch!();

//! Runs each program over loopback or pipes with a small load, and checks its answers.

mod batch_writer;
mod child;
mod debounced_cache;
mod directory_sizes;
mod http;
mod hyper_server;
mod pipeline;
mod web_service;

testing::watch!();

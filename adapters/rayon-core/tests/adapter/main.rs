//! rayon-core by its interface, in one program.

mod abort;
mod adversity;
mod beside_queues;
mod bridge;
mod broadcast;
mod coreshard_environment;
mod current_thread;
mod environment;
mod forked;
mod global_panic;
mod global_twice;
mod global_zero;
mod interface;
mod join;
mod scope;
mod scope_order;
mod scoped_threads;
mod spawn;
mod spawn_order;
mod stack_size;
mod support;
mod thread_pool;
mod two_versions;
mod waiting;
mod yielding;

testing::watch!();

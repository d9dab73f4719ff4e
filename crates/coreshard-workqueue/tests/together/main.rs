//! The queues' tests on the host's threads that can be in one process: the queue's code is compiled once for them. Those that
//! count a process's threads, fork it, or need an allocator, a subscriber or a platform of their own have programs of their own.

mod backpressure;
mod budget;
mod cancel;
mod cancel_stress;
mod contract;
mod errors;
mod exactly_once;
mod executors;
mod fork;
mod helping;
mod here;
mod insight;
mod installs;
mod kept_guards;
mod kernel_operations;
mod loops;
mod monitor;
mod oracle;
mod reactor;
mod scopes;
mod stopping;
mod tasks;
mod teams;
mod teams_and_queues;
mod told_of_waits;
mod trouble;
mod under_flood;
mod waits;
mod work;
mod workers;

testing::watch!();

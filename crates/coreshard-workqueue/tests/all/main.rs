//! The queues' tests on host threads, in one program, since each test program compiles the queue's generic code again.
//! A test that counts the threads of its process, forks it or changes it calls `testing::own_process!`.

mod attributes;
mod backpressure;
mod budget;
mod cancel;
mod cancel_stress;
mod contract;
mod embedded;
mod errors;
mod exactly_once;
mod executors;
mod failed_starts;
mod fork;
mod forked_process;
mod helping;
mod here;
mod hooks;
mod idle;
mod insight;
mod installs;
mod kept_guards;
mod kernel_operations;
mod loops;
mod monitor;
mod oracle;
mod queues;
mod reactor;
mod requeue_allocates_nothing;
mod scopes;
mod spans;
mod stopping;
mod tasks;
mod teams;
mod teams_and_queues;
mod timers;
mod told_of_waits;
mod trouble;
mod under_flood;
mod under_load;
mod user_code;
mod waits;
mod work;
mod workers;

testing::watch!();

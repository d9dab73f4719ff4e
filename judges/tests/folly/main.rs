//! Folly's tests of its executors, asked of Coreshard.
//!
//! The names and assertions are from Folly (<https://github.com/facebook/folly>, Apache-2.0):
//! `folly/executors/test/{ThreadPoolExecutor,SerialExecutor,StrandExecutor,SequencedExecutor,MeteredExecutor,
//! ThreadedExecutor,FunctionScheduler,ThreadedRepeatingFunctionRunner,TimedDrivableExecutor,Executor,
//! GlobalExecutor}Test.cpp`. The text is ours. A `CPUThreadPoolExecutor` there is a queue here, a
//! `SerialExecutor` an ordered one, a `KeepAlive` a handle, a `FunctionScheduler` a few `Periodic`s; `join` is
//! `shutdown`.

mod pool;
mod pool_life;
mod scheduler;
mod serial;
mod threaded;

testing::watch!();

//! Coreshard for Python: the compiled half of the package `coreshard`. What users see is in `python/coreshard`.
//!
//! | module | idea |
//! |---|---|
//! | `future` | a future whose state is one word; Python's own waits see it as one of theirs |
//! | `call` | what is to be called, and how it ended |
//! | `intake` | an executor's calls that wait, and the workers that run them |
//! | `executor` | `coreshard.Executor`'s half of this |
//! | `workqueue` | queues, reusable work, periodic work |
//! | `pools` | the pools that executors share |
//! | `process` | the interpreter's end, forks |
//! | `threads` | workers' thread states, which live as long as the workers |
//! | `waiting` | waits that release the lock and hear of signals |
//! | `futex` | what they sleep on |
//!
//! Rules: no lock of this package is held while Python's is waited for, and a waiting thread has released Python's. So the order is
//! always Python's lock first, then one of ours, shortly.

mod call;
mod executor;
mod futex;
mod future;
mod intake;
mod pools;
mod process;
mod threads;
mod waiting;
mod workqueue;

use pyo3::prelude::*;

/// What `coreshard` is made of.
#[pymodule(gil_used = false)]
mod _native {
    use super::{Bound, PyModule, PyResult};

    #[pymodule_export]
    use crate::executor::ExecutorCore;
    #[pymodule_export]
    use crate::future::FutureCore;
    #[pymodule_export]
    use crate::process::{end, set_classes};
    #[pymodule_export]
    use crate::workqueue::{Periodic, Work, Workqueue};

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::process::check_interpreter()?;
        // Before there is a thread that uses the package, and might be the first while another one forks.
        coreshard::ProcessGeneration::current();
        crate::threads::hooks();
        Ok(())
    }
}

//! Coreshard for Python: the compiled half of the package `coreshard`. The public half is in `python/coreshard`.
//!
//! | module | content |
//! |---|---|
//! | `future` | a future whose state is one word, compatible with Python's own waits |
//! | `call` | a call and its outcome |
//! | `intake` | an executor's waiting calls, and the workers that run them |
//! | `executor` | the compiled half of `coreshard.Executor` |
//! | `workqueue` | queues, reusable work, periodic work |
//! | `pools` | the pools that executors share |
//! | `process` | the interpreter's end, forks |
//! | `threads` | workers' thread states, which live as long as the workers |
//! | `waiting` | waits that release the GIL and handle signals |
//! | `futex` | the system calls of these waits |
//!
//! Rules: no lock of this package is held while waiting for the GIL, and a waiting thread has released the GIL. The
//! lock order is therefore the GIL first, then a lock of this package, briefly.

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

/// The compiled module.
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
        // At import, before other threads use the package and might race with a fork.
        coreshard::ProcessGeneration::current();
        crate::threads::hooks();
        Ok(())
    }
}

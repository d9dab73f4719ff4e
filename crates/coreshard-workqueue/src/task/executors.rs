//! Other crates' words for "something that runs futures".

#[cfg(feature = "futures")]
mod futures_task_traits {
    use coreshard_platform::Platform;
    use futures_task::{FutureObj, Spawn, SpawnError};

    use crate::queue::Workqueue;

    /// With the feature `futures`: tasks are detached.
    impl<P: Platform> Spawn for Workqueue<P> {
        fn spawn_obj(&self, future: FutureObj<'static, ()>) -> Result<(), SpawnError> {
            match self.spawn(future) {
                Ok(task) => {
                    task.detach();
                    Ok(())
                }
                Err(_closed) => Err(SpawnError::shutdown()),
            }
        }
    }
}

#[cfg(feature = "hyper")]
mod hyper_traits {
    use coreshard_platform::Platform;

    use crate::queue::Workqueue;

    /// With the feature `hyper`: tasks are detached. hyper has no way to hear of a refusal: if the
    /// queue is shut down, the future is dropped, and a warning is logged.
    impl<P: Platform, F> hyper::rt::Executor<F> for Workqueue<P>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        fn execute(&self, future: F) {
            match self.spawn(future) {
                Ok(task) => task.detach(),
                Err(refused) => {
                    tracing::warn!(queue = self.name(), %refused, "a connection's future is dropped");
                }
            }
        }
    }
}

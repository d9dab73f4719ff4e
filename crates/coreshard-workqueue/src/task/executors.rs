//! Other crates' words for "something that runs futures".

#[cfg(feature = "futures")]
mod futures_task_traits {
    use coreshard_platform::Platform;
    use futures_task::{FutureObj, Spawn, SpawnError};

    use crate::queue::Workqueue;

    /// With the feature `futures`: tasks are detached. A shutdown is the one error that there is: it is told wherever
    /// [`spawn`](Workqueue::spawn) refuses, also where the queue drains, or is full and waits for the caller. Elsewhere
    /// a full queue is waited for. So a queue for this has no capacity.
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

    /// With the feature `hyper`: tasks are detached. hyper has no way to hear of a refusal: where
    /// [`spawn`](Workqueue::spawn) refuses, as a queue does that is shut down, drains, or is full and waits for the caller, the future is
    /// dropped, and a warning is logged. Elsewhere a full queue is waited for. So a queue for this has no capacity; a tower service in
    /// front of another queue bounds requests.
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

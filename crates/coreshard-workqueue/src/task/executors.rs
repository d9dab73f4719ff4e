//! Implementations of other crates' executor traits.

#[cfg(feature = "futures")]
mod futures_task_traits {
    use coreshard_platform::Platform;
    use futures_task::{FutureObj, Spawn, SpawnError};

    use crate::queue::Workqueue;

    /// With the feature `futures`: tasks are detached. Every failure of [`spawn`](Workqueue::spawn) is reported as a shutdown,
    /// the only error of this trait. It also fails if the queue is being drained, or is full and waiting for room would never
    /// end. Otherwise the call waits while the queue is full. So use a queue without a capacity.
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

    /// With the feature `hyper`: tasks are detached. hyper cannot receive an error: if [`spawn`](Workqueue::spawn) fails
    /// because the queue is shut down or being drained, or is full and waiting for room would never end, the future is dropped
    /// with a logged warning. Otherwise the call waits while the queue is full. So use a queue without a capacity; a tower
    /// service in front of another queue bounds requests.
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

//! A scope that can be awaited.

use std::sync::Arc;

use coreshard_platform::{Lock, Platform};

use super::Task;
use crate::base::error::Refused;
use crate::queue::{WorkScope, Workqueue};

impl<P: Platform> Workqueue<P> {
    /// Runs a [`scope`](Self::scope) whose items borrow `data` on a worker, and returns the data and the result when it has
    /// ended. Awaiting it blocks no thread of the caller.
    ///
    /// A future cannot lend its own variables to other threads: it may be forgotten ([`std::mem::forget`]) while they are still
    /// in use, and no destructor can prevent that. So the data moves into the scope, and is returned with the result. The scope
    /// occupies one of the queue's workers. If the task is dropped before the scope has begun, nothing is run; if it is dropped
    /// later, the scope still runs to its end.
    ///
    /// # Errors
    /// Returns both if the queue is shut down. In a queue that runs one item at a time, the scope itself is that item: its
    /// `queue` method fails ([`WouldDeadlock`](crate::RefusedReason::WouldDeadlock)).
    ///
    /// # Panics
    /// Awaiting the task panics as `scope` does.
    ///
    /// # Examples
    /// ```
    /// # use coreshard_platform::Host;
    /// # use coreshard_workqueue::Runtime;
    /// # let topology = coreshard_topology::Topology::of_cpus(&coreshard_platform::affinity()?, "here".to_owned())?;
    /// # let runtime = Runtime::<Host>::builder(topology).build()?;
    /// let queue = runtime.workqueue().build()?;
    /// let own = queue.clone();
    /// let task = queue.spawn(async move {
    ///     let scope = own.scope_async(vec![1, 2, 3], |scope, numbers: &mut Vec<u32>| {
    ///         for number in numbers {
    ///             scope.queue(|| *number *= 10).expect("the queue is open");
    ///         }
    ///     });
    ///     let (numbers, ()) = scope.expect("the queue is open").await;
    ///     assert_eq!(numbers, [10, 20, 30]);
    /// })?;
    /// while !task.is_finished() {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    #[expect(clippy::type_complexity, reason = "both come back as they were given")]
    pub fn scope_async<D, R, B>(&self, data: D, body: B) -> Result<Task<(D, R)>, Refused<(D, B)>>
    where
        D: Send + 'static,
        R: Send + 'static,
        B: for<'scope, 'env> FnOnce(&'scope WorkScope<'scope, 'env, P>, &'env mut D) -> R
            + Send
            + 'static,
    {
        let queue = self.clone();
        // A rejected future does not return its captures.
        let given = Arc::new(Lock::<P, _>::new(Some((data, body))));
        let own = Arc::clone(&given);
        let spawned = self.spawn(async move {
            let (mut data, body) = own.lock().take().expect("it is polled once");
            let result = queue.scope(|scope| body(scope, &mut data));
            (data, result)
        });
        spawned.map_err(|refused| {
            let reason = refused.reason();
            let given = given.lock().take().expect("it was not polled");
            Refused::new(given, reason)
        })
    }
}

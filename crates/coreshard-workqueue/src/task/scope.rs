//! A scope that a future waits for.

use std::sync::Arc;

use coreshard_platform::{Lock, Platform};

use super::Task;
use crate::base::error::Refused;
use crate::queue::{WorkScope, Workqueue};

impl<P: Platform> Workqueue<P> {
    /// Runs a [`scope`](Self::scope) on a worker, whose items borrow `data`, and gives both back when it is over: to be awaited
    /// without blocking a thread of the caller's.
    ///
    /// A future cannot lend its own variables to other threads: it may be forgotten
    /// ([`std::mem::forget`]) while they still use them, and no destructor can prevent that. So the data moves into the
    /// scope, and comes back with the result. The scope takes one of the queue's workers; if the task is
    /// dropped before that has begun, nothing is run, and afterwards the scope ends by itself.
    ///
    /// # Errors
    /// Hands both back if the queue is shut down. To a queue that runs one item at a time the scope is an item: its
    /// `queue` refuses ([`WouldDeadlock`](crate::RefusedReason::WouldDeadlock)).
    ///
    /// # Panics
    /// The task, when it is awaited, as `scope` does.
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
        // A future that is refused does not give back what it holds.
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

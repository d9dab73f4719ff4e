//! Fork and join, on any thread.

use std::borrow::Borrow;

use coreshard_platform::Host;

use crate::own_process::Machine;

/// Runs `a` and `b`, in parallel if another worker is free for `b`; see [`coreshard_workqueue::join`].
///
/// On a thread that is not a worker, this call runs both on a queue named `join` of the process's
/// [`runtime`](crate::runtime()), with [`install`](crate::Workqueue::install), and blocks. The first such call creates
/// the queue, which keeps a worker in each of its pools. If there is no runtime (the machine cannot be read, no thread
/// can be started, or the runtime is shut down), both run on the calling thread, one after the other.
///
/// # Panics
/// With the panic of `a`, otherwise that of `b`, after both have finished.
///
/// ```
/// /// Sorts in place.
/// fn quicksort(numbers: &mut [u32]) {
///     if numbers.len() < 2 {
///         return;
///     }
///     let pivot = numbers.len() - 1;
///     let mut below = 0;
///     for at in 0..pivot {
///         if numbers[at] < numbers[pivot] {
///             numbers.swap(at, below);
///             below += 1;
///         }
///     }
///     numbers.swap(below, pivot);
///     let (left, right) = numbers.split_at_mut(below);
///     coreshard::join(|| quicksort(left), || quicksort(&mut right[1..]));
/// }
///
/// let queue = coreshard::workqueue()?.name("sort").build()?;
/// let mut numbers = [3, 1, 4, 1, 5, 9, 2, 6];
/// queue.install(|| quicksort(&mut numbers)).expect("the queue is open");
/// assert_eq!(numbers, [1, 1, 2, 3, 4, 5, 6, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[inline(always)]
#[track_caller]
pub fn join<A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    join_on::<Host, _, _>(a, b)
}

/// See [`join()`].
#[inline(always)]
#[track_caller]
pub(crate) fn join_on<M: Machine, A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    coreshard_workqueue::join_or_else::<M, _, _, _, _>(a, b, join_outside::<M, A, B>)
}

/// Joins from a thread that is not a worker.
#[cold]
#[track_caller]
fn join_outside<M: Machine, A: Send, B: Send>(
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    // If the queue rejects the closure and drops it, both are still here.
    let mut both = Some((a, b));
    let mut join = || {
        let (a, b) = both.take().expect("it is called once");
        coreshard_workqueue::join::<M, A, B>(a, b)
    };
    match M::join_queue() {
        Ok(queue) => queue.borrow().install(&mut join).unwrap_or_else(|_refused| join()),
        Err(error) => {
            tracing::debug!(%error, "a join outside a worker runs serially");
            join()
        }
    }
}

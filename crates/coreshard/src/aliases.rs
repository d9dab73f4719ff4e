//! The work queue's types and functions, on this machine.

use coreshard_platform::Host;

/// A workqueue on this machine; see [`coreshard_workqueue::Workqueue`].
pub type Workqueue = coreshard_workqueue::Workqueue<Host>;
/// A change of a live queue; see [`coreshard_workqueue::Change`].
pub type Change = coreshard_workqueue::Change<Host>;
/// Makes a [`Workqueue`]; see [`coreshard_workqueue::Builder`].
pub type Builder<'runtime> = coreshard_workqueue::Builder<'runtime, Host>;
/// A future that ends when its time has come; see [`coreshard_workqueue::Sleep`].
pub type Sleep = coreshard_workqueue::Sleep<Host>;
/// A future with a time limit; see [`coreshard_workqueue::Timeout`].
pub type Timeout<F> = coreshard_workqueue::Timeout<Host, F>;
/// Asks work to stop; see [`coreshard_workqueue::CancellationToken`].
pub type CancellationToken = coreshard_workqueue::CancellationToken<Host>;
/// Ends once its token is cancelled; see [`coreshard_workqueue::WaitForCancellation`].
pub type WaitForCancellation = coreshard_workqueue::WaitForCancellation<Host>;
/// A runtime on this machine; see [`coreshard_workqueue::Runtime`].
pub type Runtime = coreshard_workqueue::Runtime<Host>;
/// Makes a [`Runtime`]; see [`coreshard_workqueue::RuntimeBuilder`].
pub type RuntimeBuilder = coreshard_workqueue::RuntimeBuilder<Host>;
/// The right to an item's result; see [`coreshard_workqueue::JoinHandle`].
pub type JoinHandle<T> = coreshard_workqueue::JoinHandle<Host, T>;
/// An item that was taken back before it had begun; see [`coreshard_workqueue::CancelledItem`].
pub type CancelledItem<T> = coreshard_workqueue::CancelledItem<Host, T>;
/// Tasks that are awaited together; see [`coreshard_workqueue::JoinSet`].
pub type JoinSet<T> = coreshard_workqueue::JoinSet<Host, T>;
/// A scope for borrowed data; see [`coreshard_workqueue::WorkScope`].
pub type WorkScope<'scope, 'env> = coreshard_workqueue::WorkScope<'scope, 'env, Host>;

/// A reusable work item; see [`coreshard_workqueue::Work`].
pub type Work = coreshard_workqueue::Work<Host>;
/// Work at a fixed rate; see [`coreshard_workqueue::Periodic`].
pub type Periodic = coreshard_workqueue::Periodic<Host>;

/// Calls `work`, which may block; on a worker's thread another worker runs meanwhile. See
/// [`coreshard_workqueue::blocking`].
pub fn blocking<R>(work: impl FnOnce() -> R) -> R {
    coreshard_workqueue::blocking::<Host, R>(work)
}

/// Inside an item that computes for long: lets others go first that wait for its worker; see
/// [`coreshard_workqueue::yield_item`].
///
/// ```
/// let queue = coreshard::workqueue()?.name("primes").build()?;
/// let count = queue.submit(|| {
///     let mut primes = 0;
///     for number in 2..20_000_u32 {
///         primes += u32::from((2..number).take_while(|by| by * by <= number).all(|by| number % by != 0));
///         if number % 1_000 == 0 {
///             coreshard::yield_item();
///         }
///     }
///     primes
/// })?;
/// queue.queue(|| println!("does not wait for all of that"))?;
/// assert_eq!(count.join()?, 2_262);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_item() -> bool {
    coreshard_workqueue::yield_item::<Host>()
}

/// Runs `a` and `b`, at once where another worker has time for `b`; see
/// [`coreshard_workqueue::join`].
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
#[inline]
pub fn join<A, B: Send>(a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
    coreshard_workqueue::join::<Host, A, B>(a, b)
}

//! Fork and join from a thread that is not a worker.

use coreshard_platform::Platform;

use super::join::{apart, join};
use crate::pool::is_worker;

/// As [`join`] on a worker; on any other thread, `outside` must run both.
///
/// # Panics
/// As [`join`] and `outside`.
///
/// # Examples
/// ```
/// # use coreshard_platform::Host;
/// # use coreshard_workqueue::join_or_else;
/// let serial = join_or_else::<Host, _, _, _, _>(|| 1, || 2, |a, b| (a(), b()));
/// assert_eq!(serial, (1, 2));
/// ```
#[inline(always)]
pub fn join_or_else<P: Platform, A, B, F, G>(
    a: F,
    b: G,
    outside: impl FnOnce(F, G) -> (A, B),
) -> (A, B)
where
    F: FnOnce() -> A,
    G: FnOnce() -> B + Send,
    B: Send,
{
    if is_worker::<P>() { join::<P, A, B>(a, b) } else { outside(a, apart(b)) }
}

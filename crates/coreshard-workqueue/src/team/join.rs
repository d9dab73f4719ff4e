//! A join that passes to its closures whether they run on another thread.

use coreshard_platform::Platform;

use crate::fork::{apart, join_in};
use crate::pool::is_worker;

/// Runs both closures like [`join`](crate::join). Each receives whether it runs on another thread than the caller's, which `a`
/// never does. Both are run, even if one of them panics.
///
/// # Panics
/// Panics with the panic of `a`, else with that of `b`, when neither is running any more.
///
/// # Examples
/// ```
/// # use coreshard_platform::Host;
/// # use coreshard_workqueue::join_told;
/// let (a, b) = join_told::<Host, _, _>(|_| 1, |moved| (2, moved));
/// assert_eq!((a, b), (1, (2, false)), "here is no worker, so nobody else runs it");
/// ```
#[inline]
pub fn join_told<P: Platform, A, B>(
    a: impl FnOnce(bool) -> A,
    b: impl FnOnce(bool) -> B + Send,
) -> (A, B)
where
    B: Send,
{
    join_in::<P, _, _, true>(None, || a(false), b)
}

/// Runs both closures like [`join_told`] on a worker, or a member of a team; on any other thread, `outside` must run both.
///
/// # Panics
/// Panics as [`join_told`] and `outside` do.
///
/// # Examples
/// ```
/// # use coreshard_platform::Host;
/// # use coreshard_workqueue::join_told_or_else;
/// let both = join_told_or_else::<Host, _, _, _, _>(|_| 1, |_| 2, |a, b| (a(true), b(true)));
/// assert_eq!(both, (1, 2));
/// ```
#[inline]
pub fn join_told_or_else<P: Platform, A, B, F, G>(
    a: F,
    b: G,
    outside: impl FnOnce(F, G) -> (A, B),
) -> (A, B)
where
    F: FnOnce(bool) -> A,
    G: FnOnce(bool) -> B + Send,
    B: Send,
{
    if is_worker::<P>() { join_told::<P, A, B>(a, b) } else { outside(a, apart(b)) }
}

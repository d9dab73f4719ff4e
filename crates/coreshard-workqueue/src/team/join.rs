//! A join that tells where its closures run.

use coreshard_platform::Platform;

use crate::fork::join_in;

/// As [`join`](crate::join); each closure is told whether it runs on another thread than the caller's, which `a`
/// never does.
///
/// # Panics
/// As [`join`](crate::join).
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
    join_in::<P, _, _>(None, || a(false), b)
}

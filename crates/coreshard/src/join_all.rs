//! Fork into any number, and join.

use coreshard_platform::Host;

use crate::join::join_on;
use crate::own_process::Machine;

/// Runs all `tasks`, at once where other workers have time, and returns their results in their order.
///
/// It is [`join`](crate::join()) of two halves, of each of which it is `join` again: nothing is allocated, and whoever steals takes half of
/// what is left. [`join_each`] is for a number that is known only as the program runs.
///
/// # Panics
/// With what one of them threw, when none of them runs any more. As with [`join`](crate::join()), the other half is dropped then where
/// nobody has taken it, and is run to its end where somebody has. So each other task has run to its end, and what it gave is
/// dropped, or it was dropped and has not begun.
///
/// ```
/// /// The sum of all leaves below `first`, of which there are `leaves`: a power of four.
/// fn sum(first: u64, leaves: u64) -> u64 {
///     if leaves == 1 {
///         return first;
///     }
///     let part = leaves / 4;
///     let parts = std::array::from_fn::<_, 4, _>(|nth| move || sum(first + nth as u64 * part, part));
///     coreshard::join_all(parts).iter().sum()
/// }
///
/// assert_eq!(sum(0, 256), 255 * 256 / 2);
/// ```
#[inline]
#[track_caller]
pub fn join_all<T: Send, F: FnOnce() -> T + Send, const N: usize>(tasks: [F; N]) -> [T; N] {
    join_all_on::<Host, T, F, N>(tasks)
}

/// See [`join_all`].
#[inline]
#[track_caller]
pub(crate) fn join_all_on<M: Machine, T: Send, F: FnOnce() -> T + Send, const N: usize>(
    tasks: [F; N],
) -> [T; N] {
    let mut slots = tasks.map(Slot::Waits);
    each::<M, _>(&mut slots, &Slot::run);
    slots.map(Slot::into_result)
}

/// Calls `run` with each of `items`, at once where other workers have time.
///
/// Each is a fork of its own, as it should be where they are few, or each of them forks again; a loop over many short ones
/// is [`for_each_mut`](crate::Workqueue::for_each_mut), which gives several to each worker.
///
/// # Panics
/// With what one of the calls threw, when none of them runs any more; with some items it may not have been called then.
///
/// ```
/// let mut words = ["one".to_owned(), "two".to_owned(), "three".to_owned()];
/// coreshard::join_each(&mut words, |word| word.make_ascii_uppercase());
/// assert_eq!(words, ["ONE", "TWO", "THREE"]);
/// ```
#[track_caller]
pub fn join_each<T: Send>(items: &mut [T], run: impl Fn(&mut T) + Sync) {
    each::<Host, T>(items, &run);
}

/// See [`join_each`].
#[track_caller]
pub(crate) fn each<M: Machine, T: Send>(items: &mut [T], run: &(impl Fn(&mut T) + Sync)) {
    match items {
        [] => {}
        [item] => run(item),
        [first, second] => {
            join_on::<M, _, _>(|| run(first), || run(second));
        }
        _ => {
            let (first, second) = items.split_at_mut(items.len() / 2);
            join_on::<M, _, _>(|| each::<M, T>(first, run), || each::<M, T>(second, run));
        }
    }
}

/// A task, and then what it gave.
enum Slot<F, T> {
    Waits(F),
    Runs,
    Gave(T),
}

impl<F: FnOnce() -> T, T> Slot<F, T> {
    fn run(&mut self) {
        if let Self::Waits(task) = std::mem::replace(self, Self::Runs) {
            *self = Self::Gave(task());
        }
    }

    fn into_result(self) -> T {
        match self {
            Self::Gave(result) => result,
            Self::Waits(_) | Self::Runs => {
                unreachable!("each task has run, or the join has thrown")
            }
        }
    }
}

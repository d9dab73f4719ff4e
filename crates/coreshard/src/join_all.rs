//! Fork into any number of tasks, and join.

use coreshard_platform::Host;

use crate::join::join_on;
use crate::own_process::Machine;

/// Runs all `tasks`, in parallel if other workers are free, and returns their results in order.
///
/// It applies [`join`](crate::join()) to both halves recursively. It allocates nothing, and a thief steals half of the
/// remaining tasks. Use [`join_each`] if the number is known only at run time.
///
/// # Panics
/// With the panic of one of the tasks, after none of them runs any more. As in [`join`](crate::join()), the other half
/// is dropped if it was not stolen, and runs to completion if it was. Each other task therefore either ran to
/// completion, and its result is dropped, or was dropped before it started.
///
/// ```
/// /// Sums all leaves below `first`, of which there are `leaves`: a power of four.
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

/// Calls `run` with each of `items`, in parallel if other workers are free.
///
/// Each item is forked separately. This suits few items, or items that fork again. For loops over many short items use
/// [`for_each_mut`](crate::Workqueue::for_each_mut), which gives several to each worker.
///
/// # Panics
/// With the panic of one of the calls, after none of them runs any more. Some items may not have been passed to `run`.
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

/// A task, later its result.
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

//! Sorting: by hand with `join`, and with the iterators' sorts.

use rayon::join;
use rayon::slice::ParallelSliceMut;

use crate::case::{Demo, Lap, Scale, case};
use crate::random::Random;

pub fn demos() -> Vec<Demo> {
    vec![
        Demo::new("quicksort", "parts below and above a pivot, joined", quicksort),
        Demo::new("mergesort", "halves joined, then merged by joined halves", mergesort),
        Demo::new("par-sort", "par_sort of pairs", par_sort),
        Demo::new("par-sort-unstable", "par_sort_unstable of numbers", par_sort_unstable),
    ]
}

/// Below this length, the standard library sorts.
const SMALL: usize = 1000;

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}

fn quicksort(scale: Scale) -> Lap {
    fn sort(items: &mut [u64]) {
        if items.len() <= SMALL {
            return items.sort_unstable();
        }
        let last = items.len() - 1;
        let mut candidates = [items[0], items[last / 2], items[last]];
        candidates.sort_unstable();
        let pivot = candidates[1];
        // Below, equal, above: so that many equal numbers are not quadratic.
        let (mut low, mut at, mut high) = (0, 0, items.len());
        while at < high {
            if items[at] < pivot {
                items.swap(low, at);
                low += 1;
                at += 1;
            } else if items[at] == pivot {
                at += 1;
            } else {
                high -= 1;
                items.swap(at, high);
            }
        }
        let (below, rest) = items.split_at_mut(low);
        let above = &mut rest[high - low..];
        join(|| sort(below), || sort(above));
    }
    let input = Random::new(10).numbers(scale.of(1_000_000, 20_000));
    case(
        input,
        |mut items| {
            sort(&mut items);
            items
        },
        sorted,
    )
}

fn mergesort(scale: Scale) -> Lap {
    /// Merges two sorted slices into `out`.
    fn merge(one: &[u64], two: &[u64], out: &mut [u64]) {
        if one.len() < two.len() {
            return merge(two, one, out);
        }
        if out.len() <= SMALL {
            let (mut i, mut j) = (0, 0);
            for place in out {
                let from_one = j == two.len() || (i < one.len() && one[i] <= two[j]);
                *place = if from_one { one[i] } else { two[j] };
                (i, j) = if from_one { (i + 1, j) } else { (i, j + 1) };
            }
            return;
        }
        let middle = one.len() / 2;
        let cut = two.partition_point(|number| *number < one[middle]);
        let (low, high) = out.split_at_mut(middle + cut);
        join(
            || merge(&one[..middle], &two[..cut], low),
            || merge(&one[middle..], &two[cut..], high),
        );
    }

    /// Sorts `items`, with a buffer of the same length.
    fn sort(items: &mut [u64], room: &mut [u64]) {
        if items.len() <= SMALL {
            return items.sort();
        }
        let middle = items.len() / 2;
        {
            let (left, right) = items.split_at_mut(middle);
            let (left_room, right_room) = room.split_at_mut(middle);
            join(|| sort(left, left_room), || sort(right, right_room));
        }
        merge(&items[..middle], &items[middle..], room);
        items.copy_from_slice(room);
    }
    let input = Random::new(11).numbers(scale.of(1_000_000, 20_000));
    case(
        input,
        |mut items| {
            let mut room = vec![0; items.len()];
            sort(&mut items, &mut room);
            items
        },
        sorted,
    )
}

fn par_sort(scale: Scale) -> Lap {
    let mut random = Random::new(12);
    // Few keys, to check that the sort is stable.
    let input: Vec<(u16, u32)> = (0..scale.of(1_000_000, 20_000))
        .map(|place| (random.next() as u16 % 1000, place as u32))
        .collect();
    case(
        input,
        |mut items| {
            items.par_sort_by_key(|item| item.0);
            items
        },
        sorted,
    )
}

fn par_sort_unstable(scale: Scale) -> Lap {
    let input = Random::new(13).numbers(scale.of(2_000_000, 20_000));
    case(
        input,
        |mut items| {
            items.par_sort_unstable();
            items
        },
        sorted,
    )
}

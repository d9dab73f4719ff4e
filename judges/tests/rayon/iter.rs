//! A map, a reduction and a search, written with `join` alone.

use coreshard::join;

/// The longest piece that is not cut in two.
const GRAIN: usize = 64;

/// The sum of `map` over `elements`, by `sum`, in their order.
pub(crate) fn map_reduce<T: Sync, R: Send>(
    elements: &[T],
    none: &(impl Fn() -> R + Sync),
    map: &(impl Fn(&T) -> R + Sync),
    sum: &(impl Fn(R, R) -> R + Sync),
) -> R {
    if elements.len() <= GRAIN {
        return elements.iter().map(map).fold(none(), sum);
    }
    let (left, right) = elements.split_at(elements.len() / 2);
    let (left, right) =
        join(|| map_reduce(left, none, map, sum), || map_reduce(right, none, map, sum));
    sum(left, right)
}

/// `map` of each element, in their order.
pub(crate) fn collect<T: Sync, R: Send>(elements: &[T], map: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    let one = |element: &T| vec![map(element)];
    let concat = |mut left: Vec<R>, right: Vec<R>| {
        left.extend(right);
        left
    };
    map_reduce(elements, &Vec::new, &one, &concat)
}

/// The first element with a property.
pub(crate) fn find_first<'slice, T: Sync>(
    elements: &'slice [T],
    has: &(impl Fn(&T) -> bool + Sync),
) -> Option<&'slice T> {
    if elements.len() <= GRAIN {
        return elements.iter().find(|element| has(element));
    }
    let (left, right) = elements.split_at(elements.len() / 2);
    let (left, right) = join(|| find_first(left, has), || find_first(right, has));
    left.or(right)
}

//! Parallel iterators: whole loops, loops that end early, loops in loops, and iterators that are not parallel.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::case::{Demo, Lap, Scale, case};
use crate::random::{Random, mixed, stirred};

pub fn demos() -> Vec<Demo> {
    vec![
        Demo::new("map-sum", "a sum over a range, of little work each", map_sum),
        Demo::new("filter-collect", "a third of a slice, kept in order", filter_collect),
        Demo::new("chunks", "the greatest of each chunk, then the sum", chunks),
        Demo::new("flat-map", "each number becomes several, collected in order", flat_map),
        Demo::new("fold-histogram", "counts folded by part, then added up", histogram),
        Demo::new("zip-update", "two slices walked together, one written", zip_update),
        Demo::new("par-bridge", "a serial iterator, its items stirred in parallel", par_bridge),
        Demo::new("nested", "a loop in each part of a loop", nested),
        Demo::new(
            "small-loops",
            "many loops over a hundred numbers, one after the other",
            small_loops,
        ),
        Demo::new("find-any", "some number that fits: rare, and the loop ends early", find_any),
        Demo::new("find-first", "the first number that fits", find_first),
        Demo::new("words", "the words of a text, counted in maps that are merged", words),
    ]
}

fn map_sum(scale: Scale) -> Lap {
    let add = u64::wrapping_add;
    case(
        scale.of(16_000_000, 10_000) as u64,
        move |end| (0..end).into_par_iter().map(mixed).reduce(|| 0, add),
        move |end| (0..end).map(mixed).fold(0, add),
    )
}

fn filter_collect(scale: Scale) -> Lap {
    let numbers: &'static [u64] = Random::new(40).numbers(scale.of(4_000_000, 10_000)).leak();
    case(
        (),
        |()| numbers.par_iter().copied().filter(|number| number % 3 == 0).collect::<Vec<u64>>(),
        |()| numbers.iter().copied().filter(|number| number % 3 == 0).collect::<Vec<u64>>(),
    )
}

fn chunks(scale: Scale) -> Lap {
    let numbers: &'static [u64] = Random::new(41).numbers(scale.of(16_000_000, 10_000)).leak();
    let greatest =
        |chunk: &[u64]| u128::from(*chunk.iter().max().expect("a chunk holds something"));
    case(
        (),
        move |()| numbers.par_chunks(1000).map(greatest).sum::<u128>(),
        |()| numbers.chunks(1000).map(greatest).sum::<u128>(),
    )
}

fn flat_map(scale: Scale) -> Lap {
    let several = |number: u64| (0..number % 5).map(move |turn| mixed(number + turn));
    case(
        scale.of(1_500_000, 3_000) as u64,
        move |end| (0..end).into_par_iter().flat_map_iter(several).collect::<Vec<u64>>(),
        |end| (0..end).flat_map(several).collect::<Vec<u64>>(),
    )
}

fn histogram(scale: Scale) -> Lap {
    fn counted(mut counts: Vec<u32>, number: u64) -> Vec<u32> {
        counts[(mixed(number) % 256) as usize] += 1;
        counts
    }
    fn both(mut one: Vec<u32>, two: Vec<u32>) -> Vec<u32> {
        one.iter_mut().zip(two).for_each(|(one, two)| *one += two);
        one
    }
    case(
        scale.of(10_000_000, 10_000) as u64,
        |end| (0..end).into_par_iter().fold(|| vec![0; 256], counted).reduce(|| vec![0; 256], both),
        |end| (0..end).fold(vec![0; 256], counted),
    )
}

fn zip_update(scale: Scale) -> Lap {
    let length = scale.of(4_000_000, 10_000);
    let others: &'static [u64] = Random::new(42).numbers(length).leak();
    let update = |(one, other): (&mut u64, &u64)| *one = mixed(*one ^ *other);
    case(
        Random::new(43).numbers(length),
        move |mut numbers| {
            numbers.par_iter_mut().zip(others).for_each(update);
            numbers
        },
        |mut numbers| {
            numbers.iter_mut().zip(others).for_each(update);
            numbers
        },
    )
}

fn par_bridge(scale: Scale) -> Lap {
    let add = u64::wrapping_add;
    case(
        scale.of(60_000, 2_000) as u64,
        move |end| (0..end).par_bridge().map(|number| stirred(number, 300)).reduce(|| 0, add),
        move |end| (0..end).map(|number| stirred(number, 300)).fold(0, add),
    )
}

fn nested(scale: Scale) -> Lap {
    let inner = 3000;
    case(
        scale.of(2000, 20) as u64,
        move |outer| {
            let row = |number: u64| {
                (0..inner).into_par_iter().map(|turn| mixed(number * inner + turn) >> 32).sum()
            };
            (0..outer).into_par_iter().map(row).collect::<Vec<u64>>()
        },
        move |outer| {
            let row = |number: u64| (0..inner).map(|turn| mixed(number * inner + turn) >> 32).sum();
            (0..outer).map(row).collect::<Vec<u64>>()
        },
    )
}

fn small_loops(scale: Scale) -> Lap {
    case(
        scale.of(2000, 50) as u64,
        |loops| {
            (0..loops)
                .map(|number| {
                    (0..100u64)
                        .into_par_iter()
                        .map(|turn| stirred(number + turn, 20) >> 32)
                        .sum::<u64>()
                })
                .collect::<Vec<u64>>()
        },
        |loops| {
            (0..loops)
                .map(|number| (0..100u64).map(|turn| stirred(number + turn, 20) >> 32).sum::<u64>())
                .collect::<Vec<u64>>()
        },
    )
}

/// Whether some bits of the stirred number are zero, which few are.
fn fits(number: &u64, rarity: u32) -> bool {
    stirred(*number, 4).trailing_zeros() >= rarity
}

fn find_any(scale: Scale) -> Lap {
    // Several numbers fit: the result may be any of them. Twenty searches in a row, so that the time does not depend on one
    // lucky place.
    let (length, rarity) =
        (scale.of(1_000_000, 50_000) as u64, 17 - if scale == Scale::Quick { 6 } else { 0 });
    case(
        20u64,
        move |searches| {
            (0..searches)
                .map(|search| {
                    let range = search * length..(search + 1) * length;
                    let found =
                        range.clone().into_par_iter().find_any(|number| fits(number, rarity));
                    found.is_some_and(|number| range.contains(&number) && fits(&number, rarity))
                })
                .collect::<Vec<bool>>()
        },
        |searches| {
            (0..searches)
                .map(|search| {
                    (search * length..(search + 1) * length).any(|number| fits(&number, rarity))
                })
                .collect::<Vec<bool>>()
        },
    )
}

fn find_first(scale: Scale) -> Lap {
    let (length, rarity) =
        (scale.of(1_000_000, 50_000) as u64, 17 - if scale == Scale::Quick { 6 } else { 0 });
    case(
        20u64,
        move |searches| {
            (0..searches)
                .map(|search| {
                    (search * length..(search + 1) * length)
                        .into_par_iter()
                        .find_first(|number| fits(number, rarity))
                })
                .collect::<Vec<Option<u64>>>()
        },
        |searches| {
            (0..searches)
                .map(|search| {
                    (search * length..(search + 1) * length).find(|number| fits(number, rarity))
                })
                .collect::<Vec<Option<u64>>>()
        },
    )
}

fn words(scale: Scale) -> Lap {
    fn counted<'text>(
        mut counts: HashMap<&'text str, u32>,
        word: &'text str,
    ) -> HashMap<&'text str, u32> {
        *counts.entry(word).or_default() += 1;
        counts
    }
    fn both<'text>(
        one: HashMap<&'text str, u32>,
        two: HashMap<&'text str, u32>,
    ) -> HashMap<&'text str, u32> {
        let (mut more, less) = if one.len() < two.len() { (two, one) } else { (one, two) };
        less.into_iter().for_each(|(word, count)| *more.entry(word).or_default() += count);
        more
    }
    let mut random = Random::new(44);
    let mut text = String::new();
    for _ in 0..scale.of(600_000, 3_000) {
        // Small numbers are common, large ones rare, as words are.
        let rank = 1u64 << random.below(12);
        text.push_str(&format!("w{:x}", mixed(random.below(rank)) % 100_000));
        text.push(if random.below(12) == 0 { '\n' } else { ' ' });
    }
    let text: &'static str = text.leak();
    case(
        (),
        |()| text.par_split_whitespace().fold(HashMap::new, counted).reduce(HashMap::new, both),
        |()| text.split_whitespace().fold(HashMap::new(), counted),
    )
}

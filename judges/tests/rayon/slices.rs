//! `src/iter/test.rs` and `src/slice/test.rs`: slices, chunks and pairs.

use judges::{Counter, judge, pool};

use crate::iter::collect;

#[test]
fn check_slice_mut_indexed() {
    judge(|| {
        let mut numbers = vec![1, 2, 3, 4, 5];
        let mut places: Vec<_> = numbers.iter_mut().enumerate().collect();
        pool(2).for_each_mut(&mut places, |(at, number)| **number *= *at as i32).unwrap();
        assert_eq!(numbers, [0, 2, 6, 12, 20]);
    });
}

#[test]
fn check_chunks() {
    judge(|| {
        let numbers: Vec<i32> = (0..103).collect();
        let chunks: Vec<_> = numbers.chunks(10).collect();
        let sums = pool(3).install(|| collect(&chunks, &|chunk| chunk.iter().sum::<i32>()));
        assert_eq!(sums.unwrap(), numbers.chunks(10).map(|c| c.iter().sum()).collect::<Vec<i32>>());
    });
}

#[test]
fn check_chunks_mut() {
    judge(|| {
        let mut numbers: Vec<i32> = (0..103).collect();
        let mut chunks: Vec<_> = numbers.chunks_mut(10).collect();
        pool(3).for_each_mut(&mut chunks, |chunk| chunk.reverse()).unwrap();
        let mut expected: Vec<i32> = (0..103).collect();
        expected.chunks_mut(10).for_each(<[i32]>::reverse);
        assert_eq!(numbers, expected);
    });
}

#[test]
fn check_windows() {
    judge(|| {
        let numbers: Vec<i32> = (0..1000).collect();
        let pairs: Vec<_> = numbers.windows(2).collect();
        let steps = pool(3).install(|| collect(&pairs, &|pair| pair[1] - pair[0])).unwrap();
        assert_eq!(steps, vec![1; 999]);
    });
}

#[test]
fn check_zip() {
    judge(|| {
        let mut left: Vec<usize> = (0..1024).rev().collect();
        let right: Vec<usize> = (0..1024).collect();
        let mut pairs: Vec<_> = left.iter_mut().zip(&right).collect();
        pool(4).for_each_mut(&mut pairs, |(left, right)| **left += **right).unwrap();
        assert!(left.iter().all(|sum| *sum == 1023));
    });
}

#[test]
fn check_enumerate() {
    judge(|| {
        let numbers: Vec<usize> = (0..1024).rev().collect();
        let places: Vec<_> = numbers.iter().enumerate().collect();
        let sums = pool(4).install(|| collect(&places, &|(at, number)| *at + **number)).unwrap();
        assert_eq!(sums, vec![1023; 1024]);
    });
}

#[test]
fn check_update() {
    judge(|| {
        let mut lists = vec![vec![1], vec![2, 3], vec![]];
        pool(2).for_each_mut(&mut lists, |list| list.push(0)).unwrap();
        assert_eq!(lists, [vec![1, 0], vec![2, 3, 0], vec![0]]);
    });
}

/// A value that is moved into a loop is dropped once, regardless of the workers that ran the loop.
#[test]
fn check_drops() {
    judge(|| {
        let dropped = Counter::new();
        let mut elements: Vec<_> = (0..100).map(|_| Some(dropped.on_drop())).collect();
        pool(4).for_each_mut(&mut elements, |element| drop(element.take())).unwrap();
        assert_eq!(dropped.get(), 100);
        drop(elements);
        assert_eq!(dropped.get(), 100);
    });
}

/// `check_for_each_with`: all workers share the borrows of a body, and the borrows end with the loop.
#[test]
fn check_for_each_with() {
    judge(|| {
        let shared = String::from("shared");
        let mut lengths = vec![0; 1024];
        pool(4).for_each_mut(&mut lengths, |length| *length = shared.len()).unwrap();
        assert_eq!(lengths, vec![6; 1024]);
        drop(shared);
    });
}

/// `blocks`: one huge element beside many small ones does not block any worker.
#[test]
fn blocks() {
    judge(|| {
        let mut lists: Vec<Vec<u64>> = (0..64).map(|_| vec![1; 10]).collect();
        lists[0] = vec![1; 1_000_000];
        pool(4).for_each_mut(&mut lists, |list| *list = vec![list.iter().sum()]).unwrap();
        assert_eq!(lists[0], [1_000_000]);
        assert!(lists[1..].iter().all(|list| list[..] == [10]));
    });
}

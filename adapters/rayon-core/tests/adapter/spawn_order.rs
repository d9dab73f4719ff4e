//! The order of one thread's spawned tasks, in a pool without other threads.

use std::sync::mpsc::{Sender, channel};

use crate::support::{all, pool};
use rayon_core::{spawn, spawn_fifo};

/// Spawns ten tasks by `$outer` that each spawn ten by `$inner`, and returns the order of the latter.
macro_rules! ran {
    ($outer:ident, $inner:ident) => {{
        let (say, hear) = channel();
        pool(1).install(move || {
            for tens in 0..10 {
                let say = say.clone();
                $outer(move || {
                    for ones in 0..10 {
                        let say = say.clone();
                        $inner(move || say.send(tens * 10 + ones).unwrap());
                    }
                });
            }
        });
        all(hear)
    }};
}

/// 0 to 99, with the tens and the ones in an order each.
fn expected(
    tens: impl IntoIterator<Item = i32>,
    ones: impl IntoIterator<Item = i32> + Clone,
) -> Vec<i32> {
    let ten = |tens: i32| ones.clone().into_iter().map(move |ones| tens * 10 + ones);
    tens.into_iter().flat_map(ten).collect()
}

#[test]
fn lifo_order() {
    assert_eq!(ran!(spawn, spawn), expected((0..10).rev(), (0..10).rev()));
}

#[test]
fn fifo_order() {
    assert_eq!(ran!(spawn_fifo, spawn_fifo), expected(0..10, 0..10));
}

#[test]
fn lifo_fifo_order() {
    assert_eq!(ran!(spawn, spawn_fifo), expected((0..10).rev(), 0..10));
}

#[test]
fn fifo_lifo_order() {
    assert_eq!(ran!(spawn_fifo, spawn), expected(0..10, (0..10).rev()));
}

/// Spawns 0 to 3 by `$up` and, in between, -1 to -3 by `$down`. Returns their order.
macro_rules! mixed {
    ($up:ident, $down:ident) => {{
        let (say, hear) = channel();
        pool(1).install(move || {
            let send = |say: &Sender<i32>, number| {
                let say = say.clone();
                move || say.send(number).unwrap()
            };
            for number in 0..3 {
                $up(send(&say, number));
                $down(send(&say, -number - 1));
            }
            $up(send(&say, 3));
        });
        all(hear)
    }};
}

/// A FIFO task reserves a place among the LIFO ones. The FIFO tasks run in order in these places.
#[test]
fn mixed_lifo_fifo_order() {
    assert_eq!(mixed!(spawn, spawn_fifo), [3, -1, 2, -2, 1, -3, 0]);
}

#[test]
fn mixed_fifo_lifo_order() {
    assert_eq!(mixed!(spawn_fifo, spawn), [0, -3, 1, -2, 2, -1, 3]);
}

/// With the methods of a pool, on one of its threads.
macro_rules! ran_by_methods {
    ($spawn:ident) => {{
        let pool = pool(1);
        let (say, hear) = channel();
        pool.install(|| {
            for number in 0..10 {
                let say = say.clone();
                pool.$spawn(move || say.send(number).unwrap());
            }
        });
        drop(say);
        all(hear)
    }};
}

#[test]
fn spawn_lifo_order() {
    assert_eq!(ran_by_methods!(spawn), Vec::from_iter((0..10).rev()));
}

#[test]
fn spawn_fifo_order() {
    assert_eq!(ran_by_methods!(spawn_fifo), Vec::from_iter(0..10));
}

/// With it, `spawn` is also first in, first out.
#[test]
#[allow(deprecated, reason = "part of the interface")]
fn breadth_first() {
    let builder = rayon_core::ThreadPoolBuilder::new().num_threads(1).breadth_first();
    let pool = builder.build().unwrap();
    let (say, hear) = channel();
    pool.install(|| {
        for number in 0..10 {
            let say = say.clone();
            pool.spawn(move || say.send(number).unwrap());
        }
    });
    drop(say);
    assert_eq!(all(hear), Vec::from_iter(0..10));
}

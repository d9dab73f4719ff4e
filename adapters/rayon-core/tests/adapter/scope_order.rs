//! The order of one thread's tasks in scopes, in a pool without other threads.

use std::sync::Mutex;

use crate::support::pool;
use rayon_core::{scope, scope_fifo};

/// 0 to 99, with the tens and the ones in an order each.
fn expected(
    tens: impl IntoIterator<Item = i32>,
    ones: impl IntoIterator<Item = i32> + Clone,
) -> Vec<i32> {
    let ten = |tens: i32| ones.clone().into_iter().map(move |ones| tens * 10 + ones);
    tens.into_iter().flat_map(ten).collect()
}

/// Ten tasks in a scope that each spawn ten more there.
macro_rules! ran {
    ($scope:ident.$spawn:ident) => {{
        let order = Mutex::new(Vec::new());
        let log = &order;
        pool(1).install(|| {
            $scope(|scope| {
                for tens in 0..10 {
                    scope.$spawn(move |scope| {
                        for ones in 0..10 {
                            scope.$spawn(move |_| log.lock().unwrap().push(tens * 10 + ones));
                        }
                    });
                }
            });
        });
        order.into_inner().unwrap()
    }};
}

#[test]
fn lifo_order() {
    assert_eq!(ran!(scope.spawn), expected((0..10).rev(), (0..10).rev()));
}

#[test]
fn fifo_order() {
    assert_eq!(ran!(scope_fifo.spawn_fifo), expected(0..10, 0..10));
}

/// Ten tasks in a scope that each open a scope for ten more.
macro_rules! ran_nested {
    ($outer:ident.$outer_spawn:ident, $inner:ident.$inner_spawn:ident) => {{
        let order = Mutex::new(Vec::new());
        let log = &order;
        pool(1).install(|| {
            $outer(|outer| {
                for tens in 0..10 {
                    outer.$outer_spawn(move |_| {
                        $inner(|inner| {
                            for ones in 0..10 {
                                inner.$inner_spawn(move |_| {
                                    log.lock().unwrap().push(tens * 10 + ones);
                                });
                            }
                        });
                    });
                }
            });
        });
        order.into_inner().unwrap()
    }};
}

#[test]
fn nested_lifo_order() {
    let order = ran_nested!(scope.spawn, scope.spawn);
    assert_eq!(order, expected((0..10).rev(), (0..10).rev()));
}

#[test]
fn nested_fifo_order() {
    let order = ran_nested!(scope_fifo.spawn_fifo, scope_fifo.spawn_fifo);
    assert_eq!(order, expected(0..10, 0..10));
}

#[test]
fn nested_lifo_fifo_order() {
    let order = ran_nested!(scope.spawn, scope_fifo.spawn_fifo);
    assert_eq!(order, expected((0..10).rev(), 0..10));
}

#[test]
fn nested_fifo_lifo_order() {
    let order = ran_nested!(scope_fifo.spawn_fifo, scope.spawn);
    assert_eq!(order, expected(0..10, (0..10).rev()));
}

/// Spawns 0 to 3 in a scope, and -1 to -3 in an inner scope in between.
macro_rules! mixed {
    ($outer:ident.$outer_spawn:ident, $inner:ident.$inner_spawn:ident) => {{
        let order = Mutex::new(Vec::new());
        let log = &order;
        pool(1).install(|| {
            $outer(|outer| {
                outer.$outer_spawn(move |_| log.lock().unwrap().push(0));
                $inner(|inner| {
                    for number in 1..=3 {
                        inner.$inner_spawn(move |_| log.lock().unwrap().push(-number));
                        if number < 3 {
                            outer.$outer_spawn(move |_| log.lock().unwrap().push(number));
                        }
                    }
                });
                outer.$outer_spawn(move |_| log.lock().unwrap().push(3));
            });
        });
        order.into_inner().unwrap()
    }};
}

// The inner scope ends before all tasks of the outer one are spawned, and runs the tasks that it finds meanwhile.

#[test]
fn mixed_lifo_order() {
    assert_eq!(mixed!(scope.spawn, scope.spawn), [-3, 2, -2, 1, -1, 3, 0]);
}

#[test]
fn mixed_fifo_order() {
    let order = mixed!(scope_fifo.spawn_fifo, scope_fifo.spawn_fifo);
    assert_eq!(order, [-1, 0, -2, 1, -3, 2, 3]);
}

#[test]
fn mixed_lifo_fifo_order() {
    assert_eq!(mixed!(scope.spawn, scope_fifo.spawn_fifo), [-1, 2, -2, 1, -3, 3, 0]);
}

#[test]
fn mixed_fifo_lifo_order() {
    assert_eq!(mixed!(scope_fifo.spawn_fifo, scope.spawn), [-3, 0, -2, 1, -1, 2, 3]);
}

/// With the methods of a pool, on its only thread.
macro_rules! ran_by_methods {
    ($scope:ident.$spawn:ident) => {{
        let pool = pool(1);
        let order = Mutex::new(Vec::new());
        let log = &order;
        pool.install(|| {
            pool.$scope(|scope| {
                for number in 0..10 {
                    scope.$spawn(move |_| log.lock().unwrap().push(number));
                }
            });
        });
        order.into_inner().unwrap()
    }};
}

#[test]
fn scope_lifo_order() {
    assert_eq!(ran_by_methods!(scope.spawn), Vec::from_iter((0..10).rev()));
}

#[test]
fn scope_fifo_order() {
    assert_eq!(ran_by_methods!(scope_fifo.spawn_fifo), Vec::from_iter(0..10));
}

/// In place, on the pool's only thread: the order is the same.
#[test]
fn in_place_orders() {
    assert_eq!(ran_by_methods!(in_place_scope.spawn), Vec::from_iter((0..10).rev()));
    assert_eq!(ran_by_methods!(in_place_scope_fifo.spawn_fifo), Vec::from_iter(0..10));
}

//! `src/iter/test.rs`: walks over trees, whose shape is not known beforehand.

use std::sync::Mutex;

use coreshard::{WorkScope, join};
use judges::{judge, pool};

/// The children of a node of a complete tree of this degree with the numbers below `SIZE`.
fn children(node: usize, degree: usize) -> Vec<usize> {
    const SIZE: usize = 1_000;
    (1..=degree).map(|child| node * degree + child).filter(|child| *child < SIZE).collect()
}

fn in_prefix_order(node: usize, degree: usize) -> Vec<usize> {
    let below = children(node, degree).into_iter().flat_map(|child| in_prefix_order(child, degree));
    std::iter::once(node).chain(below).collect()
}

fn in_postfix_order(node: usize, degree: usize) -> Vec<usize> {
    let below =
        children(node, degree).into_iter().flat_map(|child| in_postfix_order(child, degree));
    below.chain([node]).collect()
}

/// The walks of many nodes, one after the other, made at once.
fn forest(nodes: &[usize], walk: &(impl Fn(usize) -> Vec<usize> + Sync)) -> Vec<usize> {
    match nodes {
        [] => Vec::new(),
        [node] => walk(*node),
        _ => {
            let (left, right) = nodes.split_at(nodes.len() / 2);
            let (mut left, right) = join(|| forest(left, walk), || forest(right, walk));
            left.extend(right);
            left
        }
    }
}

fn prefix(node: usize, degree: usize) -> Vec<usize> {
    let mut walk = vec![node];
    walk.extend(forest(&children(node, degree), &|child| prefix(child, degree)));
    walk
}

fn postfix(node: usize, degree: usize) -> Vec<usize> {
    let mut walk = forest(&children(node, degree), &|child| postfix(child, degree));
    walk.push(node);
    walk
}

#[test]
fn walk_tree_prefix() {
    judge(|| assert_eq!(pool(4).install(|| prefix(0, 2)).unwrap(), in_prefix_order(0, 2)));
}

#[test]
fn walk_tree_postfix() {
    judge(|| assert_eq!(pool(4).install(|| postfix(0, 2)).unwrap(), in_postfix_order(0, 2)));
}

#[test]
fn walk_tree_prefix_degree5() {
    judge(|| assert_eq!(pool(4).install(|| prefix(0, 5)).unwrap(), in_prefix_order(0, 5)));
}

#[test]
fn walk_tree_postfix_degree5() {
    judge(|| assert_eq!(pool(4).install(|| postfix(0, 5)).unwrap(), in_postfix_order(0, 5)));
}

/// A tree of one level with all the nodes, and a list: the widest and the deepest there are.
#[test]
fn walk_flat_tree_prefix() {
    judge(|| assert_eq!(pool(4).install(|| prefix(0, 1_000)).unwrap(), in_prefix_order(0, 1_000)));
}

#[test]
fn walk_tree_that_is_a_list() {
    judge(|| assert_eq!(pool(4).install(|| postfix(0, 1)).unwrap(), in_postfix_order(0, 1)));
}

/// `walk_tree`: no order is asked for, and each node is an item of a scope.
#[test]
fn walk_tree() {
    fn visit<'scope>(
        scope: &'scope WorkScope<'scope, '_>,
        seen: &'scope Mutex<Vec<usize>>,
        node: usize,
    ) {
        seen.lock().unwrap().push(node);
        for child in children(node, 3) {
            scope.queue(move || visit(scope, seen, child)).unwrap();
        }
    }
    judge(|| {
        let seen = Mutex::new(Vec::new());
        pool(4).scope(|scope| visit(scope, &seen, 0));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..1_000));
    });
}

//! Detached work.

use std::any::Any;
use std::sync::mpsc::{Sender, channel};

use crate::support::{all, next, text};
use rayon_core::{ThreadPoolBuilder, scope, spawn, spawn_fifo};

#[test]
fn spawn_then_join_in_worker() {
    let (say, hear) = channel();
    scope(|_| spawn(move || say.send(22).unwrap()));
    assert_eq!(next(&hear), 22);
}

#[test]
fn spawn_then_join_outside_worker() {
    let (say, hear) = channel();
    spawn(move || say.send(22).unwrap());
    assert_eq!(next(&hear), 22);
}

#[test]
fn spawn_fifo_outside_worker() {
    let (say, hear) = channel();
    spawn_fifo(move || say.send(22).unwrap());
    assert_eq!(next(&hear), 22);
}

/// A pool that sends the text of each panic.
fn telling(say: Sender<String>) -> ThreadPoolBuilder {
    ThreadPoolBuilder::new()
        .panic_handler(move |thrown: Box<dyn Any + Send>| say.send(text(&*thrown)).unwrap())
}

#[test]
fn panic_fwd() {
    let (say, hear) = channel();
    telling(say).build().unwrap().spawn(|| panic!("hello"));
    assert_eq!(next(&hear), "hello");
}

#[test]
fn panic_fwd_fifo() {
    let (say, hear) = channel();
    telling(say).build().unwrap().spawn_fifo(|| panic!("hello"));
    assert_eq!(next(&hear), "hello");
}

#[test]
fn termination_while_things_are_executing() {
    let (say_go, hear_go) = channel();
    let (say, hear) = channel();
    let pool = ThreadPoolBuilder::new().build().unwrap();
    pool.spawn(move || {
        let number: u32 = next(&hear_go);
        // The pool has no handle any more, but still accepts this.
        spawn(move || say.send(number).unwrap());
    });
    drop(pool);
    say_go.send(22).unwrap();
    assert_eq!(next(&hear), 22);
}

/// The handler gets the unchanged payload.
#[test]
fn custom_panic_handler_and_spawn() {
    let (say, hear) = channel();
    let builder = ThreadPoolBuilder::new().panic_handler(move |thrown| say.send(thrown).unwrap());
    builder.build().unwrap().spawn(|| std::panic::panic_any(vec![1_u8, 2, 3]));
    assert_eq!(next(&hear).downcast_ref(), Some(&vec![1_u8, 2, 3]));
}

#[test]
fn custom_panic_handler_and_nested_spawn() {
    const PANICS: usize = 3;
    let (say, hear) = channel();
    telling(say).build().unwrap().spawn(|| {
        for _ in 0..PANICS {
            spawn(|| panic!("hello"));
        }
    });
    // The handler is dropped with the pool, which has no handle any more.
    assert_eq!(all(hear), ["hello"; PANICS]);
}

/// A panic takes no thread from the pool.
#[test]
fn a_panic_is_not_the_end() {
    let (say, hear) = channel();
    let pool = telling(say).num_threads(1).build().unwrap();
    for _ in 0..10 {
        pool.spawn(|| panic!("hello"));
    }
    assert_eq!(pool.install(|| 22), 22);
    drop(pool);
    assert_eq!(all(hear).len(), 10);
}

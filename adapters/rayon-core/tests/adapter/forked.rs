//! A process that is forked from one with pools: none of their threads is there, so whoever waits for them is told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon_core::{ThreadPoolBuilder, broadcast, join, scope, spawn};

fn panics(what: &str, call: impl FnOnce()) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(()) => Err(format!("{what} returned")),
        Err(_) => Ok(()),
    }
}

#[test]
fn the_pools_of_a_forked_process_are_refused_and_new_ones_work() {
    testing::own_process!();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| join(|| (), || ()));
    join(|| (), || ());
    testing::forked(|| {
        // What is told is printed for each of them otherwise.
        std::panic::set_hook(Box::new(|_| ()));
        panics("install", || pool.install(|| ()))?;
        panics("a pool's spawn", || pool.spawn(|| ()))?;
        panics("join", || {
            join(|| (), || ());
        })?;
        panics("scope", || scope(|scope| scope.spawn(|_| ())))?;
        panics("broadcast", || {
            broadcast(|_| ());
        })?;
        panics("spawn", || spawn(|| ()))?;
        let new = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        assert_eq!(new.install(|| join(|| 1, || 2)), (1, 2));
        Ok::<(), String>(())
    })
    .unwrap();
    assert_eq!(pool.install(|| join(|| 1, || 2)), (1, 2));
}

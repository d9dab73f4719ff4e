//! A process that is forked from one with pools has none of their threads. It has a new global pool, and the inherited pools reject
//! work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use rayon_core::{
    ThreadPoolBuilder, broadcast, current_num_threads, current_thread_index, in_place_scope, join,
    scope, scope_fifo, spawn, spawn_broadcast, spawn_fifo,
};

use crate::support::next;

/// The call must fail because its work would never end here.
fn is_refused(what: &str, call: impl FnOnce()) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(()) => Err(format!("{what} returned")),
        Err(thrown) if thrown.is::<coreshard::Forked>() => Ok(()),
        Err(_) => Err(format!("{what} failed for another reason")),
    }
}

/// Uses the global pool in every way.
fn use_global_pool(threads: usize) -> Result<(), String> {
    if (current_num_threads(), current_thread_index()) != (threads, None) {
        return Err(format!("{} threads, at {:?}", current_num_threads(), current_thread_index()));
    }
    if join(|| 1, || join(|| 2, || 3)) != (1, (2, 3)) {
        return Err("join".to_owned());
    }
    let count = AtomicUsize::new(0);
    let add = || {
        count.fetch_add(1, SeqCst);
    };
    scope(|scope| (0..10).for_each(|_| scope.spawn(|_| add())));
    scope_fifo(|scope| (0..10).for_each(|_| scope.spawn_fifo(|_| add())));
    in_place_scope(|scope| (0..10).for_each(|_| scope.spawn(|_| add())));
    if count.load(SeqCst) != 30 {
        return Err("a scope".to_owned());
    }
    if broadcast(|thread| thread.index()) != (0..threads).collect::<Vec<_>>() {
        return Err("broadcast".to_owned());
    }
    let (say, hear) = channel();
    for spawn in [spawn, spawn_fifo] {
        let say = say.clone();
        spawn(Box::new(move || say.send(()).unwrap()) as Box<dyn FnOnce() + Send>);
        next(&hear);
    }
    spawn_broadcast(move |_| say.send(()).unwrap());
    (0..threads).for_each(|_| next(&hear));
    Ok(())
}

/// A forked process requests two threads, and gets them.
fn forked_asks_for_two() {
    testing::forked(|| {
        let made = ThreadPoolBuilder::new().num_threads(2).build_global();
        made.map_err(|error| error.to_string())?;
        use_global_pool(2)
    })
    .unwrap();
}

#[test]
fn a_forked_process_makes_a_global_pool_of_its_own() {
    testing::own_process!();
    ThreadPoolBuilder::new().num_threads(3).build_global().unwrap();
    use_global_pool(3).unwrap();
    testing::forked(|| {
        use_global_pool(3)?;
        // And a process that it forks.
        testing::forked(|| use_global_pool(3))
    })
    .unwrap();
    use_global_pool(3).unwrap();
}

#[test]
fn a_process_is_forked_before_its_parent_uses_the_global_pool() {
    testing::own_process!();
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| ());
    forked_asks_for_two();
}

#[test]
fn a_forked_process_makes_the_global_pool_as_its_parent_did() {
    testing::own_process!();
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    ThreadPoolBuilder::new()
        .num_threads(2)
        .thread_name(|index| format!("mail-{index}"))
        .stack_size(1 << 20)
        .start_handler(|_| {
            STARTED.fetch_add(1, SeqCst);
        })
        .panic_handler(|_| {
            PANICS.fetch_add(1, SeqCst);
        })
        .spawn_handler(|thread| {
            let named = std::thread::Builder::new().name(thread.name().unwrap().to_owned());
            named.spawn(|| thread.run()).map(drop)
        })
        .build_global()
        .unwrap();
    let names = || broadcast(|_| std::thread::current().name().map(str::to_owned));
    let expected = ["mail-0", "mail-1"].map(|name| Some(name.to_owned()));
    assert_eq!(names(), expected);
    testing::forked(|| {
        STARTED.store(0, SeqCst);
        if names() != expected || STARTED.load(SeqCst) != 2 {
            return Err(format!("{:?}, {} started", names(), STARTED.load(SeqCst)));
        }
        std::panic::set_hook(Box::new(|_| ()));
        spawn(|| panic!("for the handler"));
        while PANICS.load(SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A second build fails, as in the parent.
        match ThreadPoolBuilder::new().build_global() {
            Ok(()) => Err("it was made twice".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .unwrap();
}

#[test]
fn a_forked_process_may_ask_for_another_global_pool() {
    testing::own_process!();
    ThreadPoolBuilder::new().num_threads(3).build_global().unwrap();
    use_global_pool(3).unwrap();
    forked_asks_for_two();
}

/// The thread that is a member of the parent's pool does not belong to a pool in the child.
#[test]
fn a_member_forks() {
    testing::own_process!();
    ThreadPoolBuilder::new().num_threads(2).use_current_thread().build_global().unwrap();
    assert_eq!(current_thread_index(), Some(0));
    testing::forked(|| use_global_pool(2)).unwrap();
    let forked = scope(|_| testing::forked(|| use_global_pool(2)));
    forked.unwrap();
    let (say, hear) = channel();
    spawn_broadcast(move |thread| {
        if thread.index() == 1 {
            say.send(testing::forked(|| use_global_pool(2))).unwrap();
        }
    });
    next(&hear).unwrap();
    assert_eq!(current_thread_index(), Some(0));
}

#[test]
fn a_process_is_forked_while_another_thread_makes_the_global_pool() {
    testing::own_process!();
    let (say, hear) = channel();
    let (go_on, waits) = channel::<()>();
    let maker = std::thread::spawn(move || {
        ThreadPoolBuilder::new()
            .num_threads(1)
            .thread_name(move |_| {
                say.send(()).unwrap();
                waits.recv().unwrap();
                "slow".to_owned()
            })
            .build_global()
            .unwrap();
    });
    next(&hear);
    let threads = std::thread::available_parallelism().unwrap().get();
    testing::forked(
        || {
            if current_num_threads() == threads { Ok(()) } else { Err("not the default") }
        },
    )
    .unwrap();
    go_on.send(()).unwrap();
    maker.join().unwrap();
}

#[test]
fn the_pools_of_a_forked_process_are_refused_and_new_ones_work() {
    testing::own_process!();
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| join(|| (), || ()));
    testing::forked(|| {
        is_refused("install", || pool.install(|| ()))?;
        is_refused("join", || {
            pool.join(|| (), || ());
        })?;
        is_refused("scope", || pool.scope(|scope| scope.spawn(|_| ())))?;
        is_refused("scope_fifo", || pool.scope_fifo(|scope| scope.spawn_fifo(|_| ())))?;
        is_refused("in_place_scope", || pool.in_place_scope(|scope| scope.spawn(|_| ())))?;
        is_refused("broadcast", || {
            pool.broadcast(|_| ());
        })?;
        is_refused("spawn", || pool.spawn(|| ()))?;
        is_refused("spawn_fifo", || pool.spawn_fifo(|| ()))?;
        is_refused("spawn_broadcast", || pool.spawn_broadcast(|_| ()))?;
        if (pool.yield_now(), pool.current_thread_index()) != (None, None) {
            return Err("this thread is one of the inherited pool".to_owned());
        }
        let new = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        assert_eq!(new.install(|| join(|| 1, || 2)), (1, 2));
        Ok::<(), String>(())
    })
    .unwrap();
    assert_eq!(pool.install(|| join(|| 1, || 2)), (1, 2));
    testing::forked(|| {
        drop(pool);
        Ok::<(), String>(())
    })
    .unwrap();
}

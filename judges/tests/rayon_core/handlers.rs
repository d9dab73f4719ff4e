//! `rayon-core/src/test.rs`: the settings and handlers of a builder.

use std::sync::{Arc, Barrier};

use coreshard::{BuildError, Hooks, Intake, Scope, Wake};
use judges::{Counter, default_queue, judge, machine, queue, runtime};

#[test]
fn worker_thread_index() {
    judge(|| {
        let queue = queue(22, |builder| builder);
        assert_eq!(queue.stats().total().worker_limit, 22);
        let name = || std::thread::current().name().map(str::to_owned);
        let worker = queue.install(name).unwrap();
        assert_ne!(worker, name());
    });
}

/// One pool for each CPU: as many workers as pools start with the queue.
#[test]
fn start_callback_called() {
    const WORKERS: usize = 16;
    judge(|| {
        let called = Counter::new();
        let all = Arc::new(Barrier::new(WORKERS + 1));
        let (count, meet) = (called.clone(), Arc::clone(&all));
        let hooks = Hooks::new().on_start(move |_| {
            count.add_one();
            meet.wait();
        });
        let build = std::thread::spawn(move || {
            queue(WORKERS, |builder| builder.scope(Scope::Cpu).hooks(hooks))
        });
        all.wait();
        assert_eq!(called.get(), WORKERS);
        drop(build.join().unwrap());
    });
}

/// Hooks that wait for one another as the workers stop.
#[test]
fn exit_callback_called() {
    const WORKERS: usize = 16;
    judge(|| {
        let called = Counter::new();
        let all = Arc::new(Barrier::new(WORKERS));
        let (count, meet) = (called.clone(), Arc::clone(&all));
        let hooks = Hooks::new().on_stop(move |_| {
            count.add_one();
            meet.wait();
        });
        drop(queue(WORKERS, |builder| builder.scope(Scope::Cpu).hooks(hooks)));
        called.wait_for(WORKERS);
    });
}

/// As above, without the meeting.
#[test]
fn exit_callback_called_for_each() {
    judge(|| {
        let called = Counter::new();
        let count = called.clone();
        let hooks = Hooks::new().on_stop(move |_| count.add_one());
        drop(queue(16, |builder| builder.scope(Scope::Cpu).hooks(hooks)));
        called.wait_for(16);
    });
}

/// A hook that panics takes nothing with it: the queue works, and ends. (Rayon tells the panic handler of
/// it; here a hook is of the pool, which may be of several queues, and `tracing` is told.)
#[test]
fn handler_panics_handled_correctly() {
    judge(|| {
        let hooks = Hooks::new()
            .on_start(|_| panic!("a hook panics at the start"))
            .on_stop(|_| panic!("a hook panics at the end"));
        let queue = queue(4, |builder| builder.scope(Scope::Cpu).hooks(hooks));
        for _ in 0..100 {
            assert_eq!(queue.submit(|| 7).unwrap().join().unwrap(), 7);
        }
    });
}

#[test]
fn check_config_build() {
    judge(|| {
        let stats = queue(22, |builder| builder.scope(Scope::Cpu)).stats();
        assert_eq!((stats.pools.len(), stats.total().worker_limit), (22, 22));
    });
}

#[test]
fn check_error_send_sync() {
    fn send_sync<T: Send + Sync + std::error::Error + 'static>() {}
    send_sync::<BuildError>();
}

/// Every setting of a builder, together.
#[test]
fn configuration() {
    judge(|| {
        let builder = |builder: coreshard::Builder<'_>| -> Result<_, BuildError> {
            builder
                .name("configured")
                .scope(Scope::CacheShard)
                .shard_size(2)
                .strict(true)
                .max_active(3)
                .wake(Wake::AfterUnlock)
                .intake(Intake::Locked)
                .hooks(Hooks::new().on_start(|_| ()).on_stop(|_| ()))
                .stack_bytes(4_000_000)
                .rescuer(true)
                .panic_handler(|_| ())
                .build()
        };
        let queue = builder(runtime(5).workqueue()).unwrap();
        assert_eq!(queue.name(), "configured");
        assert_eq!(queue.install(|| 5).unwrap(), 5);
    });
}

#[test]
fn default_pool() {
    judge(|| assert_eq!(default_queue().install(|| 1).unwrap(), 1));
}

/// Zero workers cannot be asked for: the machine says how many run, and a limit is at least one.
#[test]
fn init_zero_threads() {
    judge(|| {
        let error = runtime(2).workqueue().max_active(0).build().unwrap_err();
        assert!(error.to_string().contains("max_active is 0"), "{error}");
        let error = machine(2).max_workers_per_pool(0).build().map(drop).unwrap_err();
        assert!(error.to_string().contains("max_workers_per_pool"), "{error}");
    });
}

/// The process has only one runtime.
#[test]
fn double_init_fail() {
    judge(|| {
        let threads: Vec<_> =
            (0..4).map(|_| std::thread::spawn(|| coreshard::runtime().unwrap())).collect();
        let first: *const _ = coreshard::runtime().unwrap();
        for thread in threads {
            assert!(std::ptr::eq(first, thread.join().unwrap()));
        }
    });
}

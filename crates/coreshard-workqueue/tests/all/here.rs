//! The current queue, pool, worker and runtime; and the configured number of workers.

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Hooks, Runtime, RuntimeBuilder, Work, current, join};
use testing::{NEVER, wait_until, within};

fn machine(synthetic: &str) -> RuntimeBuilder<Host> {
    let topology = Topology::from_synthetic(synthetic).unwrap();
    Runtime::builder(topology).laid_over(affinity().unwrap())
}

fn name_here() -> Option<String> {
    current::<Host>().and_then(|here| here.queue_name())
}

#[test]
fn everything_that_runs_on_a_worker_finds_its_queue() {
    within(NEVER, || {
        let runtime = machine("package:1 l3:2 core:2 pu:1").build().unwrap();
        let queue = runtime.workqueue().name("here").scope(Scope::Cache).build().unwrap();
        let other = runtime.workqueue().name("other").scope(Scope::Cache).build().unwrap();
        let is_here = || assert_eq!(name_here().as_deref(), Some("here"));
        assert!(current::<Host>().is_none());
        queue.submit(is_here).unwrap().join().unwrap();
        queue.install(|| _ = join::<Host, _, _>(is_here, is_here)).unwrap();
        queue
            .install(|| other.install(|| assert_eq!(name_here().as_deref(), Some("other"))))
            .unwrap()
            .unwrap();
        queue.for_each_range(0..10_000, |_| is_here()).unwrap();
        queue.scope(|scope| (0..10).for_each(|_| scope.queue(is_here).unwrap()));
        let task = queue.spawn(async move { is_here() }).unwrap();
        wait_until("the task finishes", || task.is_finished());
        let work = Work::new(move |_| is_here());
        work.queue(&queue).unwrap();
        work.flush().unwrap();

        let pools: BTreeSet<_> = queue.stats().pools.iter().map(|pool| pool.id).collect();
        let here = queue.submit(|| {
            let here = current::<Host>().unwrap();
            let queue = here.queue().expect("it has a handle");
            let runtime = here.runtime().expect("it has a runtime");
            assert_eq!(runtime.topology().cpus().len(), 4);
            let again = queue.submit(name_here).unwrap().join().unwrap();
            assert_eq!(again.as_deref(), Some("here"));
            assert!(format!("{here:?}").contains("here"));
            (here.pool(), here.pod(), here.worker())
        });
        let (pool, pod, worker) = here.unwrap().join().unwrap();
        assert!(pools.contains(&pool) && pod.0 < 2 && worker < 512, "{pool} {pod} {worker}");
    });
}

#[test]
fn a_queue_without_handles_has_none_inside_its_items_either() {
    within(NEVER, || {
        let runtime = machine("package:1 l3:1 core:2 pu:1").build().unwrap();
        let queue = runtime.workqueue().name("last").build().unwrap();
        let (dropped, go) = std::sync::mpsc::channel::<()>();
        let item = queue.submit(move || {
            go.recv().unwrap();
            let here = current::<Host>().unwrap();
            (here.queue_name(), here.queue().is_none(), here.runtime().is_some())
        });
        // Its drop waits for the item.
        let drops = std::thread::spawn(move || drop(queue));
        std::thread::sleep(std::time::Duration::from_millis(20));
        dropped.send(()).unwrap();
        let (name, has_no_handle, has_runtime) = item.unwrap().join().unwrap();
        assert_eq!((name.as_deref(), has_no_handle, has_runtime), (Some("last"), true, true));
        drops.join().unwrap();
    });
}

/// 32 items that wait for one another, on two CPUs, without declaring their waits.
#[test]
fn as_many_workers_run_as_are_asked_for() {
    within(NEVER, || {
        let runtime =
            machine("package:1 l3:1 core:2 pu:1").workers(32).cpu_quota(0.5).build().unwrap();
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        let (all, indices) = (Barrier::new(32), Mutex::new(BTreeSet::new()));
        queue.scope(|scope| {
            for _ in 0..32 {
                scope
                    .queue(|| {
                        indices.lock().unwrap().insert(current::<Host>().unwrap().worker());
                        all.wait();
                    })
                    .unwrap();
            }
        });
        assert_eq!(indices.lock().unwrap().len(), 32);
        let stats = queue.stats().total();
        assert_eq!(stats.worker_limit, 32);
        assert!(stats.workers >= 32);
    });
}

#[test]
fn workers_are_shared_out_among_pools() {
    let limits = |builder: RuntimeBuilder<Host>, scope: Scope| -> Vec<usize> {
        let queue = builder.build().unwrap().workqueue().scope(scope).build().unwrap();
        queue.stats().pools.iter().map(|pool| pool.worker_limit).collect()
    };
    let four = || machine("package:1 l3:2 core:2 pu:1");
    assert_eq!(limits(four().workers(64), Scope::Cache), [32, 32]);
    assert_eq!(limits(four().workers(7), Scope::Cpu), [1, 2, 2, 2]);
    assert_eq!(limits(four().workers(1), Scope::Cache), [1, 1]);
    assert_eq!(limits(four().workers(64).max_workers_per_pool(8), Scope::Cache), [8, 8]);
    assert_eq!(limits(four().cpu_quota(2.0), Scope::Cache), [1, 1], "as before");
    assert!(four().workers(0).build().is_err());
}

#[test]
fn a_runtimes_hooks_and_names_are_those_of_its_queues() {
    within(NEVER, || {
        let started = std::sync::Arc::new(Mutex::new(Vec::new()));
        let hook = std::sync::Arc::clone(&started);
        let hooks = Hooks::new().on_start(move |_| {
            let here = current::<Host>().expect("a hook is on a worker");
            assert!(
                here.queue_name().is_none() && here.queue().is_none() && here.runtime().is_none()
            );
            hook.lock().unwrap().push(std::fs::read_to_string("/proc/thread-self/comm").unwrap());
        });
        let runtime = machine("package:1 l3:1 core:2 pu:1")
            .hooks(hooks)
            .thread_names("my\0-")
            .build()
            .unwrap();
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        queue.submit(|| ()).unwrap().join().unwrap();
        let own = runtime.workqueue().scope(Scope::System).hooks(Hooks::new()).build().unwrap();
        own.submit(|| ()).unwrap().join().unwrap();
        // Which of its workers starts first is open. The other queue has hooks of its own.
        let mut names = started.lock().unwrap().clone();
        assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("my-sys0:")));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    });
}

//! The CPU of an item: CPUs, nodes, affinity scopes, `schedule_on_each_cpu`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use coreshard::{CpuId, CpuSet, NodeId, RefusedReason, Scope, Target, Work, WorkErrorReason};
use judges::{judge, queue, runtime};

fn pool_name() -> String {
    std::thread::current().name().unwrap().split(':').next().unwrap().to_owned()
}

/// `queue_work_on`: "the caller must specify the CPU"; with a pool for each, it runs in that one's.
#[test]
fn queue_work_on_runs_in_that_cpus_pool() {
    judge(|| {
        let queue = queue(4, |builder| builder.scope(Scope::Cpu).strict(true));
        let name = Arc::new(Mutex::new(String::new()));
        let told = Arc::clone(&name);
        let work = Work::new(move |_| *told.lock().unwrap() = pool_name());
        let mut names = BTreeSet::new();
        for cpu in 0..4 {
            for _ in 0..2 {
                assert!(work.queue_on(&queue, CpuId(cpu)).unwrap());
                work.flush().unwrap();
                names.insert(name.lock().unwrap().clone());
            }
        }
        assert_eq!(names.len(), 4, "{names:?}");
    });
}

/// A CPU that the queue does not have is an error, and the item is idle.
#[test]
fn queue_work_on_a_cpu_that_is_not_there() {
    judge(|| {
        let queue = queue(2, |builder| builder.scope(Scope::Cpu));
        let work = Work::new(|_| ());
        let error = work.queue_on(&queue, CpuId(2)).unwrap_err();
        let expected = RefusedReason::NoSuchCpu(CpuId(2));
        assert_eq!(error.reason(), WorkErrorReason::Refused(expected));
        assert!(!work.is_pending());
        assert_eq!(
            queue.queue_on(CpuId(9), || ()).unwrap_err().reason(),
            RefusedReason::NoSuchCpu(CpuId(9))
        );
    });
}

/// `queue_work_node`: on a CPU of that node; of this machine's, since a laid-over machine has none.
#[test]
fn queue_work_node_runs_on_the_node() {
    judge(|| {
        let runtime = coreshard::runtime().unwrap();
        let queue = runtime.workqueue().scope(Scope::Numa).strict(true).build().unwrap();
        let nodes: BTreeSet<_> = queue.stats().pools.iter().filter_map(|pool| pool.node).collect();
        assert!(!nodes.is_empty());
        let work = Work::new(|_| ());
        for node in &nodes {
            assert!(work.queue_on_node(&queue, *node).unwrap());
            work.flush().unwrap();
        }
        let absent = NodeId(nodes.last().unwrap().0 + 1);
        let refused = queue.queue_on_node(absent, || ()).unwrap_err();
        assert_eq!(refused.reason(), RefusedReason::NoSuchNode(absent));
    });
}

/// `schedule_on_each_cpu`: a function on every CPU, and a wait for all of them.
#[test]
fn schedule_on_each_cpu() {
    judge(|| {
        let queue = queue(6, |builder| builder.scope(Scope::Cpu).strict(true));
        let names = Arc::new(Mutex::new(BTreeSet::new()));
        for cpu in 0..6 {
            let names = Arc::clone(&names);
            let tell = move || {
                names.lock().unwrap().insert(pool_name());
            };
            queue.queue_on(CpuId(cpu), tell).unwrap();
        }
        queue.flush().unwrap();
        assert_eq!(names.lock().unwrap().len(), 6);
    });
}

/// A delayed item for a CPU is queued there when its time has come.
#[test]
fn queue_delayed_work_on() {
    judge(|| {
        let queue = queue(3, |builder| builder.scope(Scope::Cpu).strict(true));
        let (tx, rx) = std::sync::mpsc::channel();
        let work = Work::new(move |_| tx.send(pool_name()).unwrap());
        let mut names = BTreeSet::new();
        for cpu in 0..3 {
            work.queue_to(&queue, Target::Cpu(CpuId(cpu)), judges::ms(2)).unwrap();
            names.insert(rx.recv().unwrap());
            work.flush().unwrap();
        }
        assert_eq!(names.len(), 3, "{names:?}");
    });
}

/// "Affinity scopes": one pool for each pod of the scope.
#[test]
fn affinity_scopes_make_pools() {
    judge(|| {
        let topology =
            coreshard::Topology::from_synthetic("package:2 [numa] l3:2 core:2 pu:2").unwrap();
        let real = coreshard::runtime().unwrap().usable();
        let runtime = coreshard::Runtime::builder(topology).laid_over(real).build().unwrap();
        let expected = [
            (Scope::Cpu, 16),
            (Scope::Smt, 8),
            (Scope::Cache, 4),
            (Scope::Numa, 2),
            (Scope::System, 1),
        ];
        for (scope, pools) in expected {
            let queue = runtime.workqueue().scope(scope).build().unwrap();
            assert_eq!(queue.stats().pools.len(), pools, "{scope}");
        }
    });
}

/// Queues with equal attributes share their pools, and others do not.
#[test]
fn pools_are_shared_by_equal_attributes() {
    judge(|| {
        let runtime = runtime(2);
        let first = runtime.workqueue().build().unwrap();
        let equal = runtime.workqueue().name("another").max_active(3).build().unwrap();
        let other = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
        let id = |queue: &coreshard::Workqueue| queue.stats().pools[0].id;
        assert_eq!(id(&first), id(&equal));
        assert_ne!(id(&first), id(&other));
    });
}

/// `wq_unbound_cpumask`, CPU hotplug: items that are queued while the set of CPUs changes run.
#[test]
fn cpus_come_and_go_under_load() {
    judge(|| {
        let runtime = runtime(4);
        let queue = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
        let run = judges::Counter::new();
        let few: CpuSet = [CpuId(1)].into_iter().collect();
        let all = runtime.usable();
        for round in 0..20 {
            for _ in 0..200 {
                let count = run.clone();
                queue.queue(move || count.add_one()).unwrap();
            }
            runtime.set_usable(if round % 2 == 0 { few.clone() } else { all.clone() }).unwrap();
        }
        queue.flush().unwrap();
        assert_eq!(run.get(), 4_000);
    });
}

/// If no CPU of a queue's mask is online, the queue uses all CPUs. The mask applies again when its CPUs are back.
#[test]
fn a_mask_without_a_cpu_falls_back() {
    judge(|| {
        let runtime = runtime(4);
        let mask: CpuSet = [CpuId(3)].into_iter().collect();
        let queue = runtime.workqueue().scope(Scope::Cpu).cpu_mask(mask).build().unwrap();
        let all = runtime.usable();
        assert_eq!(queue.stats().pools.len(), 1);
        runtime.set_usable((0..3).map(CpuId).collect()).unwrap();
        assert_eq!(queue.stats().pools.len(), 3);
        queue.submit(|| ()).unwrap().join().unwrap();
        runtime.set_usable(all).unwrap();
        assert_eq!(queue.stats().pools.len(), 1);
    });
}

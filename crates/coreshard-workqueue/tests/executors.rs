//! The queue as other crates' executor: `cargo test --all-features --test executors`.

testing::watch!();

#[cfg(feature = "futures")]
#[test]
fn a_queue_spawns_what_futures_task_hands_it() {
    use std::sync::mpsc;

    use coreshard_platform::Host;
    use coreshard_topology::Topology;
    use coreshard_workqueue::Runtime;
    use futures_task::{FutureObj, Spawn};

    let runtime = Runtime::<Host>::builder(Topology::host().unwrap());
    let usable = coreshard_platform::affinity().unwrap();
    let runtime = runtime.usable(usable).build().unwrap();
    let queue = runtime.workqueue().build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let future = || {
        let sender = sender.clone();
        FutureObj::new(Box::new(async move { sender.send(7).unwrap() }))
    };
    queue.spawn_obj(future()).unwrap();
    assert_eq!(receiver.recv().unwrap(), 7);
    queue.shutdown(std::time::Duration::from_secs(60)).unwrap();
    assert!(queue.spawn_obj(future()).unwrap_err().is_shutdown());
}

#[cfg(feature = "hyper")]
#[test]
fn a_queue_runs_what_hyper_hands_it() {
    use std::sync::mpsc;

    use coreshard_platform::Host;
    use coreshard_topology::Topology;
    use coreshard_workqueue::Runtime;
    use hyper::rt::Executor;

    let runtime = Runtime::<Host>::builder(Topology::host().unwrap());
    let usable = coreshard_platform::affinity().unwrap();
    let runtime = runtime.usable(usable).build().unwrap();
    let queue = runtime.workqueue().build().unwrap();
    let (sender, receiver) = mpsc::channel();
    queue.execute(async move { sender.send(7).unwrap() });
    assert_eq!(receiver.recv().unwrap(), 7);
}

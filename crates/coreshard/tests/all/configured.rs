//! The process's runtime, configured before its first use, and `join` on a thread that is not a worker. There is only
//! one test, as a process is configured once.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use coreshard::{ProcessGeneration, Scope};
use testing::forked;

fn threads(count: u32, seen: &Mutex<HashSet<std::thread::ThreadId>>) -> u32 {
    if count < 2 {
        assert_eq!(
            coreshard::current().and_then(|here| here.queue_name()).as_deref(),
            Some("join")
        );
        seen.lock().unwrap().insert(std::thread::current().id());
        std::thread::sleep(Duration::from_millis(1));
        return count;
    }
    let (one, other) =
        coreshard::join(|| threads(count / 2, seen), || threads(count - count / 2, seen));
    one + other
}

#[test]
fn a_process_is_configured_once_and_joins_in_parallel_anywhere() {
    testing::own_process!();
    coreshard::configure(|builder| builder.workers(4).thread_names("mine-")).unwrap();
    let queue = coreshard::workqueue().unwrap().scope(Scope::System).build().unwrap();
    let set = queue.stats().total();
    assert_eq!(set.worker_limit, 4);
    let name = queue.submit(|| std::fs::read_to_string("/proc/thread-self/comm").unwrap());
    assert!(name.unwrap().join().unwrap().starts_with("mine-sys0:"));

    let error = coreshard::configure(|builder| builder.workers(8)).unwrap_err().to_string();
    assert!(
        error.contains("tests/all/configured.rs:") && error.contains("first used at"),
        "{error}"
    );

    let seen = Mutex::new(HashSet::new());
    assert_eq!(threads(100, &seen), 100);
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() > 1 && !seen.contains(&std::thread::current().id()), "{seen:?}");

    // The panic propagates to here.
    let thrown = std::panic::catch_unwind(|| coreshard::join(|| 1, || panic!("wanted")).0);
    assert_eq!(*thrown.unwrap_err().downcast::<&str>().unwrap(), "wanted");

    // A forked process has a runtime with the same settings.
    let parent = ProcessGeneration::current();
    assert!(parent.is_current() && !parent.is_forked());
    forked(move || {
        assert!(!parent.is_current() && ProcessGeneration::current().is_forked());
        let queue = coreshard::workqueue().unwrap().scope(Scope::System).build().unwrap();
        assert_eq!(queue.stats().total().worker_limit, 4);
        assert_eq!(coreshard::join(|| 1, || 2), (1, 2));
        Ok::<_, &str>(())
    })
    .unwrap();
}

//! A panic of user code in bodies, hooks and destructors ends only that one call.

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use crate::support::usable;
use coreshard_platform::{Host, user};
use coreshard_rt::{Executor, Overrun, Periodic, Priority};
use testing::{NEVER, within};

/// Panics when it is dropped, with a payload that does so as well.
struct Bomb(u8, Arc<AtomicU64>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
        if self.0 > 0 {
            panic_any(Bomb(self.0 - 1, Arc::clone(&self.1)));
        }
    }
}

fn executor() -> (Executor<Host>, Priority) {
    let (machine, cpus) = usable();
    let executor = Executor::<Host>::builder(&machine).cpus(cpus).build_degraded().unwrap().0;
    (executor, Priority::new(20).unwrap())
}

#[test]
fn lanes_and_periodic_tasks_outlive_what_is_thrown() {
    within(NEVER, || {
        let gone = Arc::new(AtomicU64::new(0));
        let bomb = || Bomb(2, Arc::clone(&gone));
        let (executor, priority) = executor();
        let (thrown, result, captured, unwanted) = (bomb(), bomb(), bomb(), bomb());
        drop(executor.spawn::<()>(priority, move || panic_any(thrown)).unwrap());
        // If the task has already finished, the handle drops the result here.
        drop(user::discard(executor.spawn(priority, move || result).unwrap()));
        let captures = move || drop(captured);
        executor.spawn(priority, captures).unwrap().join().unwrap_err();
        let panic = executor.spawn::<()>(priority, move || panic_any(unwanted)).unwrap().join();
        drop(panic.unwrap_err());
        for cpu in executor.cpus() {
            let one = [cpu].into_iter().collect();
            let lives = executor.spawn_on(priority, &one, None, || 1).unwrap();
            assert_eq!(lives.join().unwrap(), 1, "the thread of CPU {cpu} lives");
        }

        // A body and a hook that panic with such payloads each time, and own some.
        let (theirs, hooks, owned) = (Arc::clone(&gone), Arc::clone(&gone), [bomb(), bomb()]);
        let [of_body, of_hook] = owned;
        let (say, hear) = mpsc::channel();
        let hook = move |_: &_| {
            let _owned = &of_hook;
            panic_any(Bomb(1, Arc::clone(&hooks)));
        };
        let period = Duration::from_millis(1);
        let task = Periodic {
            overrun: Overrun::Call(Box::new(hook)),
            ..Periodic::every(period, priority)
        };
        let body = move |_: &_| {
            let _owned = &of_body;
            std::thread::sleep(period * 2);
            let _ = say.send(());
            panic_any(Bomb(1, Arc::clone(&theirs)));
        };
        let periodic = executor.periodic(task, body).unwrap();
        hear.iter().take(3).for_each(drop);
        let stats = periodic.stop();
        assert!(stats.activations >= 3 && stats.panics >= 6, "{stats:?}");
    });
}

#[test]
fn timers_that_are_dropped_throw_one_by_one() {
    within(NEVER, || {
        let gone = Arc::new(AtomicU64::new(0));
        let (executor, priority) = executor();
        let handles: Vec<_> = (0..5)
            .map(|_| {
                let bomb = Bomb(1, Arc::clone(&gone));
                let never = move || drop(bomb);
                executor.after(NEVER * 10, priority, never).unwrap().1
            })
            .collect();
        drop(executor);
        // Each bomb, and its payload.
        assert_eq!(gone.load(SeqCst), 10);
        for handle in handles {
            assert!(handle.join().unwrap_err().to_string().contains("dropped before it began"));
        }
    });
}

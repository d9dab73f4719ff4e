//! `task_abort.rs`, `join_handle_panic.rs`, `task_yield_now.rs`, `rt_shutdown_err.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use coreshard::{Task, runtime, yield_now};
use judges::{
    Counter, block_on, judge, judge_alone, ms, poll_once, pool, sleep_ms, thrown, wait_until,
};

struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        panic!("Well what did you expect would happen...");
    }
}

/// A task that sleeps for long, and holds something.
fn sleeping<T: Send + 'static>(held: T) -> (coreshard::Workqueue, Task<()>) {
    let queue = pool(1);
    let sleep = runtime().unwrap().sleep(ms(3_600_000)).unwrap();
    let task = queue.spawn(async move {
        let _held = held;
        sleep.await;
    });
    queue.flush().unwrap();
    (queue, task.unwrap())
}

#[test]
fn test_abort_without_panic_3157() {
    judge(|| {
        let (_queue, task) = sleeping(());
        assert_eq!(block_on(task.cancel()), None);
    });
}

/// Cancelled from another thread; the queue works on.
#[test]
fn test_abort_without_panic_3662() {
    judge(|| {
        let dropped = Counter::new();
        let (queue, task) = sleeping(dropped.on_drop());
        assert_eq!(dropped.get(), 0);
        thread::spawn(move || assert!(block_on(task.cancel()).is_none())).join().unwrap();
        assert_eq!(dropped.get(), 1);
        block_on(queue.spawn(yield_now()).unwrap());
    });
}

/// A cancel wakes the task, so that it is dropped though nothing else would.
#[test]
fn test_abort_wakes_task_3964() {
    judge(|| {
        let dropped = Counter::new();
        let (_queue, task) = sleeping(dropped.on_drop());
        drop(task);
        wait_until(|| dropped.get() == 1);
    });
}

#[test]
fn test_abort_task_that_panics_on_drop_contained() {
    judge_alone(|| {
        let (queue, task) = sleeping(PanicOnDrop);
        drop(task);
        queue.flush().unwrap();
        assert_eq!(block_on(queue.spawn(async { 1 }).unwrap()), 1);
    });
}

#[test]
fn test_abort_task_that_panics_on_drop_returned() {
    judge_alone(|| {
        let (queue, task) = sleeping(PanicOnDrop);
        let _ = thrown(|| block_on(task.cancel()));
        assert_eq!(block_on(queue.spawn(async { 1 }).unwrap()), 1);
    });
}

/// `join_handle_panic.rs`: the destructor of an output that no awaiter takes panics.
#[test]
fn test_panics_do_not_propagate_when_dropping_join_handle() {
    judge_alone(|| {
        let queue = pool(1);
        let task = queue.spawn(async { PanicOnDrop }).unwrap();
        wait_until(|| task.is_finished());
        // The panic may propagate from the drop of the output, but must not end the process.
        let _ = thrown(|| drop(task));
        assert_eq!(block_on(queue.spawn(async { 1 }).unwrap()), 1);
    });
}

/// The same if the task is detached first: the worker drops the output.
#[test]
fn test_detached_output_panics_on_drop() {
    judge_alone(|| {
        let queue = pool(1);
        queue.freeze().unwrap();
        queue.spawn(async { PanicOnDrop }).unwrap().detach();
        queue.thaw().unwrap();
        queue.flush().unwrap();
        assert_eq!(block_on(queue.spawn(async { 1 }).unwrap()), 1);
    });
}

#[test]
fn test_join_error_display() {
    judge(|| {
        let queue = pool(1);
        let value = 1234;
        let formatted = queue.submit(move || panic!("Format-args payload: {value}")).unwrap();
        let formatted = formatted.join().map(|(): ()| ()).unwrap_err();
        assert!(formatted.to_string().ends_with("panicked: Format-args payload: 1234"));
        let constant = queue.submit(|| panic!("Const payload")).unwrap();
        let constant = constant.join().map(|(): ()| ()).unwrap_err();
        assert!(constant.to_string().ends_with("panicked: Const payload"));
        let other = queue.submit(|| std::panic::panic_any(1234)).unwrap();
        let other = other.join().map(|(): ()| ()).unwrap_err();
        assert!(other.to_string().contains("panicked"));
        assert_eq!(other.into_payload().downcast_ref(), Some(&1234));
    });
}

#[test]
fn test_join_error_debug() {
    judge(|| {
        let item = pool(1).submit(|| panic!("Const payload")).unwrap();
        let error = item.join().map(|(): ()| ()).unwrap_err();
        assert!(format!("{error:?}").ends_with("panicked: Const payload"), "{error:?}");
    });
}

/// The payload of a task's panic is what was thrown, for who awaits it.
#[test]
fn test_join_error_panic() {
    judge(|| {
        let queue = pool(1);
        let task = queue.spawn(async { std::panic::panic_any(1234) }).unwrap();
        let thrown = thread::spawn(move || block_on::<Task<()>>(task)).join().unwrap_err();
        assert_eq!(thrown.downcast_ref(), Some(&1234));
    });
}

/// `task_yield_now.rs`: outside of a queue it is a future as any.
#[test]
fn yield_now_outside_of_runtime() {
    judge(|| {
        let mut future = yield_now();
        assert!(poll_once(&mut future).is_none());
        assert!(poll_once(&mut future).is_some());
    });
}

#[test]
fn yield_now_external_executor_and_block_in_place() {
    judge(|| {
        let task = pool(1).spawn(async { coreshard::blocking(|| block_on(yield_now())) });
        block_on(task.unwrap());
    });
}

/// A task that is woken after its end, by wakers that outlive its queue.
#[test]
fn wakers_outlive_everything() {
    judge(|| {
        let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
        let queue = pool(1);
        let keep = Arc::clone(&kept);
        let mut polls = 0;
        let task = queue.spawn(std::future::poll_fn(move |context| {
            polls += 1;
            keep.lock().unwrap().push(context.waker().clone());
            context.waker().wake_by_ref();
            if polls == 10 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        }));
        block_on(task.unwrap());
        drop(queue);
        let wakers = std::mem::take(&mut *kept.lock().unwrap());
        assert_eq!(wakers.len(), 10);
        wakers.into_iter().for_each(std::task::Waker::wake);
    });
}

/// A task that cancels itself, through a handle that another one put in its place.
#[test]
fn a_task_drops_its_own_handle() {
    judge(|| {
        let queue = pool(1);
        let (tx, rx) = judges::unbounded::<Task<()>>();
        let over = Arc::new(AtomicBool::new(false));
        let dropped = Counter::new();
        let (reached, guard) = (Arc::clone(&over), dropped.on_drop());
        let task = queue.spawn(async move {
            let _guard = guard;
            drop(rx.recv().await);
            reached.store(true, SeqCst);
            judges::pending::<()>().await;
        });
        tx.send_now(task.unwrap());
        wait_until(|| over.load(SeqCst));
        wait_until(|| dropped.get() == 1);
        sleep_ms(1);
        assert_eq!(block_on(queue.spawn(async { 1 }).unwrap()), 1);
    });
}

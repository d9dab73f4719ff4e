//! Every error of the crate converts to `Box<dyn Error + Send + Sync>` with `?`, on any thread.

use std::cell::Cell;
use std::error::Error;

use coreshard_platform::Host;
use coreshard_topology::Topology;
use coreshard_workqueue::{
    BuildError, Dropped, Elapsed, Forked, Panic, ParseVariantError, Refused, RefusedReason,
    Runtime, ShutdownTimeout, SleepError, TaskError, WaitError, WorkError, Workqueue,
    WouldDeadlock,
};

fn assert_error<E: Error + Send + Sync + 'static>() {}

#[test]
fn all_are_errors_that_may_be_sent_and_shared() {
    assert_error::<BuildError>();
    assert_error::<Dropped>();
    assert_error::<Elapsed>();
    assert_error::<Forked>();
    assert_error::<Panic>();
    assert_error::<ParseVariantError>();
    assert_error::<Refused>();
    assert_error::<RefusedReason>();
    assert_error::<ShutdownTimeout>();
    assert_error::<SleepError>();
    assert_error::<TaskError>();
    assert_error::<WaitError>();
    assert_error::<WorkError>();
    assert_error::<WouldDeadlock>();
    // For any item: this one is not `Sync`.
    assert_error::<Refused<Cell<u32>>>();
    assert_error::<Refused<Box<dyn FnOnce() + Send>>>();
}

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Only has to compile: with closures that borrow and that are not `Sync`.
fn all_go_through_the_question_mark(queue: &Workqueue<Host>) -> Outcome {
    let (unshared, mut numbers) = (Cell::new(7), [1, 2, 3]);
    queue.queue(move || unshared.set(8))?;
    assert_eq!(queue.submit(|| 7)?.join()?, 7);
    queue.spawn(async {})?.detach();
    queue.install(|| numbers[0] = 7)?;
    queue.for_each_mut(&mut numbers, |number| *number += 1)?;
    queue.for_each_range(0..3, |range| assert!(numbers[range].iter().all(|number| *number > 1)))?;
    queue.scope(|scope| scope.queue(|| assert_eq!(numbers[0], 8)))?;
    queue.flush()?;
    Ok(())
}

#[test]
fn a_refusal_goes_up_without_the_closure() {
    let runtime = Runtime::<Host>::builder(Topology::host().unwrap()).build().unwrap();
    let queue = runtime.workqueue().build().unwrap();
    all_go_through_the_question_mark(&queue).unwrap();
    queue.shutdown(testing::NEVER).unwrap();
    let error = all_go_through_the_question_mark(&queue).unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
    let refused = queue.queue(|| ()).unwrap_err().without_item();
    assert_eq!(RefusedReason::from(refused), RefusedReason::ShutDown);
}

#[test]
fn each_reason_says_what_to_do() {
    let drained = RefusedReason::Draining.to_string();
    assert!(drained.contains("not shut down") && drained.contains("again"), "{drained}");
    assert!(RefusedReason::ShutDown.to_string().contains("another"));
}

#[test]
fn one_item_is_no_plural() {
    let runtime = Runtime::<Host>::builder(Topology::host().unwrap()).build().unwrap();
    let queue = runtime.workqueue().build().unwrap();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    queue.queue(move || _ = ended.recv()).unwrap();
    let soon = std::time::Duration::from_millis(1);
    let texts = [
        queue.flush_timeout(soon).unwrap_err().to_string(),
        queue.shutdown(soon).unwrap_err().to_string(),
    ];
    drop(end);
    for text in texts {
        assert!(text.starts_with("1 work item was") && text.contains("it continues"), "{text}");
    }
}

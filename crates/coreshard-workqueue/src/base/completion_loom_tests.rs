//! Models of a completion: polls of the holder concurrent with the opening.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use coreshard_platform::{DataCell, Loom, Parker};

use super::completion::Completion;

struct Unpark(Parker<Loom>);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread until `poll` returns true.
fn block_on(poll: impl Fn(&Context<'_>) -> bool) {
    let parker = Arc::new(Unpark(Parker::new()));
    let waker = Waker::from(Arc::clone(&parker));
    while !poll(&Context::from_waker(&waker)) {
        parker.0.park();
    }
}

/// A plain value that is written before the opening: loom reports a read concurrent with the write.
struct Model {
    completion: Completion<Loom>,
    value: <Loom as coreshard_platform::Platform>::Cell<u32>,
}

// SAFETY: the models check this.
unsafe impl Sync for Model {}

impl Model {
    fn new() -> Arc<Self> {
        Arc::new(Self { completion: Completion::new(), value: DataCell::new(0) })
    }

    fn open(self: &Arc<Self>) -> loom::thread::JoinHandle<()> {
        let model = Arc::clone(self);
        loom::thread::spawn(move || {
            // SAFETY: the holder reads it only after the opening.
            model.value.with_mut(|value| unsafe { *value = 7 });
            // SAFETY: this Arc keeps it alive; it is opened once.
            unsafe { model.completion.open() }.unwrap();
        })
    }

    fn take(&self) -> u32 {
        // SAFETY: it is open.
        self.value.with(|value| unsafe { *value })
    }
}

/// Fails if `open` does not check the result of its exchange, and if `set_polled` is not `Release` (the opener reads a waker
/// that is not visible to it).
#[test]
fn loom_whoever_polls_hears_of_the_opening_and_sees_what_came_before() {
    Loom::check(3, || {
        let model = Model::new();
        let opener = model.open();
        // SAFETY: this is the holder.
        block_on(|context| unsafe { model.completion.poll(context) });
        assert_eq!(model.take(), 7);
        opener.join().unwrap();
    });
}

/// The waker is stored again, and withdrawn, during the opening: it is never owned twice.
#[test]
fn loom_a_waker_that_is_taken_back_is_not_woken() {
    Loom::check(3, || {
        let model = Model::new();
        let opener = model.open();
        let never = Waker::noop();
        // SAFETY: this is the holder.
        let is_open = unsafe { model.completion.poll(&Context::from_waker(never)) };
        // SAFETY: as above.
        unsafe { model.completion.forget() };
        if is_open {
            assert_eq!(model.take(), 7);
        }
        opener.join().unwrap();
        assert_eq!(model.take(), 7);
    });
}

/// The model fails if the holder stores its waker without checking whether it is open by then.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_a_poll_that_does_not_look_again_is_found() {
    Loom::check(3, || {
        let model = Model::new();
        let opener = model.open();
        block_on(|context| {
            let completion = &model.completion;
            if completion.latch().is_open() {
                return true;
            }
            completion.leave_without_a_look(context.waker().clone());
            false
        });
        opener.join().unwrap();
    });
}

//! Models of the state that a future shares with the queue.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use coreshard_platform::{Loom, Parker};

use super::remote::{FutureCell, IoFuture, Mailbox, Message};
use super::request_id::{RequestId, SlotKey};
use crate::request::{Completed, Op, Payload};

fn mailbox() -> Arc<Mailbox<Loom>> {
    Mailbox::new(Arc::new(|| {}))
}

fn completed() -> Completed {
    Completed { result: Ok(0), payload: Payload::None, op: Op::Read, offset: 0, cookie: 0 }
}

/// Another thread drops a future while the queue takes its request. If the queue does not take it, the next
/// request gets the id that it would have had, and must not be cancelled. Fails if the id is stored apart
/// from the state and read after the future was abandoned (another request is cancelled), and if `accepted`
/// does not store it (nothing is cancelled).
#[test]
fn loom_a_dropped_future_cancels_its_own_request_alone() {
    Loom::check(3, || {
        let (cell, mailbox) = (FutureCell::new(), mailbox());
        let future = IoFuture::new(Arc::clone(&cell), Arc::clone(&mailbox));
        let dropper = loom::thread::spawn(move || drop(future));
        let name = RequestId { queue: 1, key: SlotKey { serial: 7, index: 0 } };
        let accepted = cell.accepted(name);
        dropper.join().unwrap();
        let mut messages = VecDeque::new();
        mailbox.close(&mut messages);
        let cancelled: Vec<RequestId> = messages
            .into_iter()
            .filter_map(|message| match message {
                Message::Cancel(id) => Some(id),
                Message::Submit(..) => None,
            })
            .collect();
        assert_eq!(cancelled, if accepted { vec![name] } else { Vec::new() });
    });
}

struct Sleeper(Parker<Loom>);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A future is polled while its request completes: it is ready, or its waker is woken. Fails (the poller
/// sleeps forever) if `poll` does not check again when it stores its waker.
#[test]
fn loom_no_completion_is_missed() {
    Loom::check(3, || {
        let cell = FutureCell::new();
        let mut future = pin!(IoFuture::new(Arc::clone(&cell), mailbox()));
        let queue = loom::thread::spawn(move || cell.complete(completed()).unwrap());
        let sleeper = Arc::new(Sleeper(Parker::new()));
        let waker = Arc::clone(&sleeper).into();
        let mut context = Context::from_waker(&waker);
        while let Poll::Pending = future.as_mut().poll(&mut context) {
            sleeper.0.park();
        }
        queue.join().unwrap();
    });
}

//! Devices that never answer: they keep their commands, and waiters get an error.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker as TaskWaker};
use std::time::Duration;

use coreshard_platform::Host;

use crate::*;

const REQUEST_BYTES: usize = 4096;

/// A device that accepts commands and keeps them.
#[derive(Debug, Default)]
struct Silent {
    /// The id of each command at the device, with address and length of each piece.
    has: Mutex<Vec<(u64, usize, usize)>>,
    /// The number of commands that it still answers, the oldest first, when the queue waits.
    answers: AtomicUsize,
    /// Whether waiting for it fails.
    is_broken: AtomicBool,
    channel_is_dropped: AtomicBool,
    cancels: AtomicUsize,
}

impl Silent {
    /// Writes into all memory that it has, as slow hardware does.
    fn write_late(&self) {
        for (_, start, bytes) in self.has.lock().unwrap().iter() {
            // SAFETY: the device never reported that it finished with this memory, so the memory is still
            // lent to it.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<u8>(*start).write_bytes(0xEE, *bytes);
            }
        }
    }
}

struct SilentChannel {
    device: Arc<Silent>,
    completions: Vec<Completion>,
}

// SAFETY: only `write_late` writes a command's memory, and only that of commands whose completion was not
// reported.
unsafe impl Channel for SilentChannel {
    unsafe fn start(&mut self, command: &Command) -> bool {
        let mut has = self.device.has.lock().unwrap();
        match command.data {
            Data::None => has.push((command.id, 0, 0)),
            Data::One { start, bytes, .. } => {
                has.push((command.id, start.expose_provenance(), bytes))
            }
            Data::Many { pieces, count } => {
                // SAFETY: they live as long as the command.
                let pieces = unsafe { std::slice::from_raw_parts(pieces, count as usize) };
                for piece in pieces {
                    has.push((command.id, piece.iov_base.expose_provenance(), piece.iov_len));
                }
            }
        }
        true
    }

    fn reap(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.completions);
    }

    fn wait(&mut self, _timeout: Option<Duration>) -> io::Result<()> {
        let mut has = self.device.has.lock().unwrap();
        while self.device.answers.load(SeqCst) > 0 && !has.is_empty() {
            self.device.answers.fetch_sub(1, SeqCst);
            let (id, _, bytes) = has.remove(0);
            self.completions.push(Completion { id, result: bytes as i32 });
        }
        match self.device.is_broken.load(SeqCst) {
            true => Err(io::Error::other("broken")),
            false => Ok(()),
        }
    }

    fn cancel(&mut self, _id: u64) {
        self.device.cancels.fetch_add(1, SeqCst);
    }

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    fn describe(&self) -> String {
        "silent".to_owned()
    }
}

impl Drop for SilentChannel {
    fn drop(&mut self) {
        self.device.channel_is_dropped.store(true, SeqCst);
    }
}

#[derive(Debug)]
struct SilentBackend(Arc<Silent>);

impl Backend<Host> for SilentBackend {
    fn name(&self) -> &str {
        "silent"
    }

    fn geometry(&self) -> Geometry {
        Geometry { bytes: 1 << 20, block_bytes: 1, memory_align: 1, writable: true }
    }

    fn channel(&self, _depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        Ok(Box::new(SilentChannel { device: Arc::clone(&self.0), completions: Vec::new() }))
    }
}

fn host(depth: u32) -> Arc<HostAdapter<Host>> {
    HostAdapter::new(HostOptions { depth, ..HostOptions::default() }).unwrap()
}

/// Creates a queue with a short drain timeout, so that no test waits for a minute.
fn queue_on(host: &Arc<HostAdapter<Host>>, silent: &Arc<Silent>) -> Queue<Host> {
    let device = host.target("t").device(Arc::new(SilentBackend(Arc::clone(silent)))).unwrap();
    let mut queue = device.queue(0, QueueOptions::default()).unwrap();
    assert_eq!(queue.drain_timeout, Duration::from_secs(60));
    queue.drain_timeout = Duration::ZERO;
    queue
}

fn vec_of(byte: u8) -> Vec<u8> {
    vec![byte; REQUEST_BYTES]
}

fn ready(future: &mut IoFuture<Host>) -> Completed {
    match Pin::new(future).poll(&mut Context::from_waker(TaskWaker::noop())) {
        Poll::Ready(completed) => completed,
        Poll::Pending => panic!("the future is pending"),
    }
}

/// Checks the completion of a request that the device keeps.
fn is_given_up(completed: &Completed) {
    let error = completed.result.as_ref().unwrap_err();
    assert_eq!((error.class(), error.errno()), (ErrorClass::Gone, libc::ETIMEDOUT));
    let text = error.to_string();
    for word in ["silent: ", "never answered", "buffers", "offline"] {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    assert_eq!(completed.payload.bytes(), 0, "the device keeps the buffers");
}

#[test]
fn what_a_silent_device_has_stays_its_own_and_all_others_are_told() {
    for is_broken in [false, true] {
        let silent = Arc::new(Silent::default());
        silent.is_broken.store(is_broken, SeqCst);
        let host = host(5);
        let pool = BufferPool::new(4, REQUEST_BYTES).unwrap();
        let mut queue = queue_on(&host, &silent);
        let (device, remote) = (Arc::clone(queue.device()), queue.remote());
        // The device gets five: the number of tags.
        queue.submit(Request::write(0, vec_of(1)), 7).unwrap();
        let told: Rc<RefCell<Vec<Completed>>> = Rc::default();
        let called = Rc::clone(&told);
        let then = move |completed| called.borrow_mut().push(completed);
        queue.call(Request::read(0, pool.take().unwrap()), then).unwrap();
        let parts = vec![Buffer::from(vec_of(2)), pool.take().unwrap()];
        let mut kept = [
            queue.send(Request::write_vectored(0, parts)),
            queue.send(Request::read(4096, vec_of(3))),
            queue.send(Request::fsync()),
        ];
        // The others wait: for a tag, and in the mailbox.
        let mut in_line = queue.send(Request::read(0, pool.take().unwrap()));
        let mut in_mailbox = remote.send(Request::write(0, vec_of(5)));
        assert_eq!((host.tags().in_use(), pool.taken()), (5, 3));
        drop(queue);
        for future in [&mut in_line, &mut in_mailbox] {
            let completed = ready(future);
            assert_eq!(completed.result.unwrap_err().class(), ErrorClass::Cancelled);
            assert_eq!(completed.payload.bytes(), REQUEST_BYTES, "handed back");
        }
        is_given_up(&told.borrow_mut().pop().unwrap());
        assert!(told.borrow().is_empty(), "reported once");
        kept.iter_mut().for_each(|future| is_given_up(&ready(future)));
        assert!(silent.cancels.load(SeqCst) >= 5, "the device was asked to cancel them");
        assert!(!silent.channel_is_dropped.load(SeqCst), "the device may use its channel");
        // Writes of the device now reach no other memory.
        assert_eq!(pool.taken(), 2, "the buffers at the device");
        let others: Vec<Vec<u8>> = (0..64).map(|_| vec![0; REQUEST_BYTES]).collect();
        let of_pool: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(of_pool.len(), 2);
        silent.write_late();
        assert!(others.iter().all(|other| other.iter().all(|byte| *byte == 0)));
        assert!(of_pool.iter().all(|buffer| buffer.iter().all(|byte| *byte == 0)));
        // The device is out of use, but the tags of its commands are free.
        assert!(!device.is_online());
        assert_eq!(host.tags().in_use(), 0);
        let counts = device.counts();
        assert_eq!((counts.issued, counts.done, counts.errors), (5, 5, 5));
        let mut again = device.queue(0, QueueOptions::default()).unwrap();
        let refused = again.submit(Request::read(0, vec_of(6)), 8).unwrap_err();
        assert_eq!(refused.error().class(), ErrorClass::Gone);
    }
}

#[test]
fn what_it_answers_until_the_end_counts() {
    // All of them, in the last look: then nothing is given up.
    let silent = Arc::new(Silent::default());
    silent.answers.store(4, SeqCst);
    let host = host(8);
    let mut queue = queue_on(&host, &silent);
    let device = Arc::clone(queue.device());
    let mut futures: Vec<_> = (0..4).map(|_| queue.send(Request::read(0, vec_of(1)))).collect();
    drop(queue);
    for future in &mut futures {
        let completed = ready(future);
        assert_eq!(completed.result.unwrap(), REQUEST_BYTES);
        assert_eq!(completed.payload.bytes(), REQUEST_BYTES);
    }
    assert!(device.is_online() && silent.channel_is_dropped.load(SeqCst));
    assert_eq!(host.tags().in_use(), 0);
    // Some of them.
    let silent = Arc::new(Silent::default());
    silent.answers.store(3, SeqCst);
    let mut queue = queue_on(&host, &silent);
    let mut futures: Vec<_> = (0..4).map(|_| queue.send(Request::read(0, vec_of(1)))).collect();
    drop(queue);
    let mut last = futures.pop().unwrap();
    for future in &mut futures {
        assert_eq!(ready(future).result.unwrap(), REQUEST_BYTES);
    }
    is_given_up(&ready(&mut last));
}

/// A silent device holds all tags of its host and of its target; dropping its queue releases them all.
#[test]
fn its_neighbours_go_on() {
    for tags in TagPolicy::ALL {
        let host =
            HostAdapter::new(HostOptions { depth: 4, tags, ..HostOptions::default() }).unwrap();
        let target = host.target_with_limit("t", 3).unwrap();
        let silent = Arc::new(Silent::default());
        let device = target.device(Arc::new(SilentBackend(Arc::clone(&silent)))).unwrap();
        let other = target.device(Arc::new(Null::<Host>::new(1 << 20))).unwrap();
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        queue.drain_timeout = Duration::ZERO;
        let mut neighbour = other.queue(0, QueueOptions::default()).unwrap();
        for number in 0..20 {
            queue.submit(Request::read(0, vec_of(1)), number).unwrap();
        }
        let waits = neighbour.submit(Request::read(0, vec_of(1)), 0).unwrap();
        neighbour.poll();
        drop(queue);
        for number in 1..100 {
            neighbour.submit(Request::read(0, vec_of(1)), number).unwrap();
        }
        let done = std::iter::from_fn(|| neighbour.wait_for_one()).count();
        assert_eq!(done, 100, "{tags}, after {waits:?} has waited");
        assert_eq!(host.tags().in_use(), 0, "{tags}");
        silent.write_late();
    }
}

/// All callbacks are called, and then the panic of the first one is resumed.
#[test]
fn callbacks_that_panic_as_they_are_told_of_the_end_stop_nothing() {
    let silent = Arc::new(Silent::default());
    let mut queue = queue_on(&host(8), &silent);
    let told = Rc::new(RefCell::new(0));
    for _ in 0..6 {
        let told = Rc::clone(&told);
        let then = move |completed: Completed| {
            is_given_up(&completed);
            *told.borrow_mut() += 1;
            std::panic::resume_unwind(Box::new(*told.borrow()));
        };
        queue.call(Request::read(0, vec_of(1)), then).unwrap();
    }
    let thrown = catch_unwind(AssertUnwindSafe(|| drop(queue))).unwrap_err();
    assert_eq!(thrown.downcast_ref::<i32>(), Some(&1), "the panic of the first callback");
    assert_eq!(*told.borrow(), 6);
    assert!(!silent.channel_is_dropped.load(SeqCst));
    silent.write_late();
}

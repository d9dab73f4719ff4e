//! Services on a queue: back-pressure, deadlines, and clients that go away.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use coreshard::integration::tower::{ServiceErrorReason, WorkqueueLayer};
use coreshard::{CancellationToken, RefusedReason, Runtime, Scope, Workqueue};
use futures_lite::future::block_on;
use testing::{NEVER, wait_until, within};
use tower_layer::Layer;
use tower_service::Service;

/// One worker, so that what is behind an item waits for it.
fn queue(capacity: usize) -> (Runtime, Workqueue) {
    let topology = coreshard::Topology::from_synthetic("package:1 l3:1 core:1 pu:1").unwrap();
    let builder = Runtime::builder(topology).laid_over(coreshard_platform::affinity().unwrap());
    let runtime = builder.max_workers_per_pool(1).build().unwrap();
    let builder = runtime.workqueue().name("heavy").scope(Scope::System);
    let queue = builder.capacity(capacity).build().unwrap();
    (runtime, queue)
}

async fn ready<R, S: Service<R>>(service: &mut S) -> Result<(), S::Error> {
    poll_fn(|context| service.poll_ready(context)).await
}

fn is_ready<R, S: Service<R>>(service: &mut S) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    matches!(service.poll_ready(&mut context), Poll::Ready(Ok(())))
}

type Function = fn(u32, CancellationToken) -> Result<u32, String>;

const DOUBLE: Function = |number, _wanted| match number {
    0 => Err("nothing to double".to_owned()),
    13 => panic!("no 13"),
    number => Ok(2 * number),
};

#[test]
fn a_function_is_a_service() {
    within(NEVER, || {
        let (_runtime, queue) = queue(4);
        let mut service = WorkqueueLayer::new(queue.clone()).service_fn(DOUBLE);
        block_on(async {
            for number in 1..10 {
                ready(&mut service).await.unwrap();
                assert_eq!(service.call(number).await.unwrap(), 2 * number);
            }
            ready(&mut service).await.unwrap();
            let error = service.call(0).await.unwrap_err();
            assert_eq!(error.reason(), ServiceErrorReason::Service);
            assert_eq!(error.into_service_error().unwrap(), "nothing to double");
            ready(&mut service).await.unwrap();
            let error = service.call(13).await.unwrap_err();
            assert_eq!(error.to_string(), "the request panicked on the workqueue \"heavy\": no 13");
            assert_eq!(error.into_panic().unwrap().message(), "no 13");
        });
        // Unused reservations are returned.
        ready_and_dropped(&service);
        wait_until("nothing is reserved", || queue.stats().capacity_used == 0);
    });
}

fn ready_and_dropped<S: Service<u32> + Clone>(service: &S) {
    let mut service = service.clone();
    assert!(is_ready(&mut service));
}

#[test]
fn ready_is_reserved() {
    within(NEVER, || {
        let (_runtime, queue) = queue(1);
        queue.freeze().unwrap();
        let mut one = WorkqueueLayer::new(queue.clone()).service_fn(DOUBLE);
        assert!(is_ready(&mut one));
        assert!(is_ready(&mut one), "once is enough");
        let mut other = one.clone();
        assert!(!is_ready(&mut other), "a clone of a ready one is not ready");
        assert_eq!(queue.try_queue(|| ()).unwrap_err().reason(), RefusedReason::Full);
        let mut first = pin!(one.call(1));
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(!is_ready(&mut one), "the room was for one call");
        assert_eq!(queue.stats().waiting_producers, 2);
        drop(one);
        queue.thaw().unwrap();
        assert_eq!(block_on(first).unwrap(), 2);
        block_on(async {
            ready(&mut other).await.unwrap();
            assert_eq!(other.call(2).await.unwrap(), 4);
        });
    });
}

#[test]
#[should_panic(expected = "a service is called after `poll_ready`")]
fn who_waits_is_not_called_before_it_is_ready() {
    let (_runtime, queue) = queue(1);
    drop(WorkqueueLayer::new(queue).service_fn(DOUBLE).call(1));
}

#[test]
fn load_is_shed_at_once() {
    within(NEVER, || {
        let (_runtime, queue) = queue(2);
        queue.freeze().unwrap();
        let mut service = WorkqueueLayer::new(queue.clone()).shed().service_fn(DOUBLE);
        assert!(is_ready(&mut service));
        let accepted = [service.call(1), service.call(2)];
        assert!(is_ready(&mut service), "always");
        let error = block_on(service.call(3)).unwrap_err();
        assert_eq!(error.reason(), ServiceErrorReason::Overloaded);
        assert_eq!(error.queue_name(), "heavy");
        assert_eq!(error.to_string(), "the workqueue \"heavy\" is full (capacity 2)");
        assert_eq!(queue.stats().refused, 1);
        queue.thaw().unwrap();
        let values = accepted.map(|response| block_on(response).unwrap());
        assert_eq!(values, [2, 4]);
    });
}

#[test]
fn what_has_not_begun_by_its_deadline_never_does() {
    within(NEVER, || {
        let (_runtime, queue) = queue(8);
        queue.freeze().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let layer = WorkqueueLayer::new(queue.clone()).deadline(Duration::from_millis(5));
        let mut service = layer.clone().service_fn(move |_: Arc<()>, _| {
            counted.fetch_add(1, SeqCst);
            Ok::<(), Infallible>(())
        });
        let request = Arc::new(());
        block_on(async {
            ready(&mut service).await.unwrap();
            let error = service.call(Arc::clone(&request)).await.unwrap_err();
            assert_eq!(error.reason(), ServiceErrorReason::DeadlineExceeded { has_begun: false });
            assert!(error.to_string().contains("had not begun"), "{error}");
            assert_eq!(Arc::strong_count(&request), 1, "the request is dropped at once");
            // The same for a future.
            let mut inner = layer.layer(Echo { answers: true });
            ready(&mut inner).await.unwrap();
            let error = inner.call(1).await.unwrap_err();
            assert_eq!(error.reason(), ServiceErrorReason::DeadlineExceeded { has_begun: false });
        });
        queue.thaw().unwrap();
        queue.flush().unwrap();
        assert_eq!(calls.load(SeqCst), 0);
    });
}

/// As a sleep that is cut short by the clock's end.
#[test]
fn a_deadline_after_the_clocks_end_is_none() {
    within(NEVER, || {
        let (_runtime, queue) = queue(4);
        for deadline in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
            let layer = WorkqueueLayer::new(queue.clone()).deadline(deadline);
            for layer in [layer.clone(), layer.shed()] {
                let mut service = layer.service_fn(DOUBLE);
                block_on(async {
                    ready(&mut service).await.unwrap();
                    assert_eq!(service.call(4).await.unwrap(), 8);
                });
            }
        }
    });
}

#[test]
fn the_time_in_line_counts() {
    within(NEVER, || {
        let (_runtime, queue) = queue(1);
        queue.freeze().unwrap();
        let held = queue.try_reserve().unwrap();
        let mut service = WorkqueueLayer::new(queue.clone())
            .deadline(Duration::from_millis(5))
            .service_fn(DOUBLE);
        block_on(async {
            // Ready to say so: a service that is no more use would be an error here.
            ready(&mut service).await.unwrap();
            let error = service.call(1).await.unwrap_err();
            assert_eq!(error.reason(), ServiceErrorReason::DeadlineExceeded { has_begun: false });
        });
        assert_eq!(queue.stats().waiting_producers, 0);
        drop(held);
        queue.thaw().unwrap();
    });
}

#[test]
fn what_has_begun_by_its_deadline_is_told() {
    within(NEVER, || {
        let (_runtime, queue) = queue(8);
        let told = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&told);
        let layer = WorkqueueLayer::new(queue.clone()).deadline(Duration::from_millis(20));
        let mut service = layer.clone().service_fn(move |(), wanted: CancellationToken| {
            while !wanted.is_cancelled() {
                std::thread::yield_now();
            }
            tells.store(true, SeqCst);
            Ok::<(), Infallible>(())
        });
        block_on(async {
            ready(&mut service).await.unwrap();
            let error = service.call(()).await.unwrap_err();
            assert!(matches!(error.reason(), ServiceErrorReason::DeadlineExceeded { .. }));
            // On a machine that is busy it may not even have begun.
            if error.reason() == (ServiceErrorReason::DeadlineExceeded { has_begun: true }) {
                wait_until("it is cancelled", || told.load(SeqCst));
            }
        });
    });
}

/// A client that goes away takes its request along.
#[test]
fn a_response_that_nobody_waits_for_is_cancelled() {
    within(NEVER, || {
        let (_runtime, queue) = queue(8);
        let began = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicUsize::new(0));
        let (begins, ends) = (Arc::clone(&began), Arc::clone(&ended));
        let mut service =
            WorkqueueLayer::new(queue.clone()).service_fn(move |(), wanted: CancellationToken| {
                begins.fetch_add(1, SeqCst);
                while !wanted.is_cancelled() {
                    std::thread::yield_now();
                }
                ends.fetch_add(1, SeqCst);
                Ok::<(), Infallible>(())
            });
        block_on(ready(&mut service)).unwrap();
        let runs = service.call(());
        wait_until("it has begun", || began.load(SeqCst) == 1);
        block_on(ready(&mut service)).unwrap();
        drop(service.call(()));
        drop(runs);
        queue.flush().unwrap();
        assert_eq!((began.load(SeqCst), ended.load(SeqCst)), (1, 1));
    });
}

/// Answers, or waits for ever, and counts what is dropped.
#[derive(Clone)]
struct Echo {
    answers: bool,
}

impl Service<u32> for Echo {
    type Response = u32;
    type Error = String;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<u32, String>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u32) -> Self::Future {
        // Also here, and not on the caller's thread.
        let queue = coreshard::current().and_then(|here| here.queue_name());
        assert_eq!(queue.as_deref(), Some("heavy"));
        let answers = self.answers;
        Box::pin(async move {
            if !answers {
                std::future::pending::<()>().await;
            }
            coreshard::yield_now().await;
            if request == 0 { Err("zero".to_owned()) } else { Ok(request) }
        })
    }
}

#[test]
fn a_services_futures_run_on_the_queue() {
    within(NEVER, || {
        let (_runtime, queue) = queue(2);
        let layer = WorkqueueLayer::new(queue.clone());
        let mut service = layer.layer(Echo { answers: true });
        block_on(async {
            ready(&mut service).await.unwrap();
            assert_eq!(service.call(7).await.unwrap(), 7);
            ready(&mut service).await.unwrap();
            assert_eq!(service.call(0).await.unwrap_err().into_service_error().unwrap(), "zero");
        });
        let mut late =
            layer.clone().deadline(Duration::from_millis(5)).layer(Echo { answers: false });
        block_on(async {
            ready(&mut late).await.unwrap();
            let error = late.call(7).await.unwrap_err();
            assert!(matches!(error.reason(), ServiceErrorReason::DeadlineExceeded { .. }));
        });
        let mut gone = layer.layer(Echo { answers: false });
        block_on(ready(&mut gone)).unwrap();
        drop(gone.call(7));
        queue.shutdown(NEVER).unwrap();
    });
}

#[test]
fn a_queues_end_is_an_error_and_no_wait() {
    within(NEVER, || {
        let (_runtime, queue) = queue(1);
        queue.freeze().unwrap();
        let layer = WorkqueueLayer::new(queue.clone());
        let mut service = layer.service_fn(DOUBLE);
        block_on(ready(&mut service)).unwrap();
        let waits = service.call(1);
        let mut in_line = service.clone();
        assert!(!is_ready(&mut in_line));
        drop(queue.shutdown_now(NEVER));
        assert_eq!(block_on(waits).unwrap_err().reason(), ServiceErrorReason::Dropped);
        let error = block_on(ready(&mut in_line)).unwrap_err();
        assert_eq!(error.reason(), ServiceErrorReason::Refused(RefusedReason::ShutDown));
        let mut sheds = WorkqueueLayer::new(queue).shed().service_fn(DOUBLE);
        let error = block_on(sheds.call(1)).unwrap_err();
        assert_eq!(error.reason(), ServiceErrorReason::Refused(RefusedReason::ShutDown));
    });
}

#[test]
fn errors_and_services_may_be_sent_and_shared() {
    fn may<T: Send + Sync + 'static>() {}
    may::<coreshard::integration::tower::ServiceError<Infallible>>();
    may::<coreshard::integration::tower::WorkqueueFn<Function>>();
    may::<coreshard::integration::tower::WorkqueueService<Echo>>();
    fn may_move<T: Send + 'static>() {}
    may_move::<coreshard::integration::tower::ResponseFuture<u32, String>>();
    let error: Box<dyn std::error::Error + Send + Sync> = {
        let (_runtime, queue) = queue(1);
        queue.freeze().unwrap();
        let mut service =
            WorkqueueLayer::new(queue.clone()).shed().service_fn(|(), _| Ok::<(), Infallible>(()));
        let _held = queue.try_reserve().unwrap();
        block_on(service.call(())).unwrap_err().into()
    };
    assert!(error.source().is_none());
}

/// Many clones at once: none is refused that was ready, and all get an answer.
#[test]
fn clones_on_many_threads_never_find_it_full() {
    within(NEVER, || {
        let (_runtime, queue) = queue(3);
        let service = WorkqueueLayer::new(queue.clone()).service_fn(DOUBLE);
        std::thread::scope(|scope| {
            for thread in 1..=4_u32 {
                let service = service.clone();
                scope.spawn(move || {
                    for number in 0..200 {
                        let mut service = service.clone();
                        let number = 1_000 * thread + number;
                        let response = block_on(async {
                            ready(&mut service).await.unwrap();
                            service.call(number).await
                        });
                        assert_eq!(response.unwrap(), 2 * number);
                    }
                });
            }
        });
        assert_eq!(queue.stats().refused, 0);
        assert_eq!(queue.stats().queued, 800);
    });
}

//! The queue as an executor for other crates: `cargo test --all-features --test all executors`.

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

#[cfg(feature = "hyper")]
#[test]
fn hyper_sleeps_by_the_timers() {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use coreshard_platform::Host;
    use coreshard_topology::Topology;
    use coreshard_workqueue::Runtime;
    use futures_lite::future::block_on;
    use hyper::rt::{Sleep, Timer};

    const LONG: Duration = Duration::from_secs(3600);

    fn is_over(sleep: &mut Pin<Box<dyn Sleep>>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        sleep.as_mut().poll(&mut context) == Poll::Ready(())
    }

    /// A sleep of another crate. The runtime's timer cannot reset it.
    struct Foreign;
    impl Sleep for Foreign {}
    impl Future for Foreign {
        type Output = ();
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }

    fn check(timer: &dyn Timer, waiting: &dyn Fn() -> usize) {
        block_on(timer.sleep(Duration::from_millis(1)));
        block_on(timer.sleep_until(timer.now() + Duration::from_millis(1)));
        let past = timer.now();
        assert!(is_over(&mut timer.sleep_until(past)));
        assert_eq!(waiting(), 0);

        let mut sleep = timer.sleep(LONG);
        assert!(!is_over(&mut sleep));
        assert_eq!(waiting(), 1);
        let place = &raw const *sleep;
        timer.reset(&mut sleep, timer.now() + 2 * LONG);
        assert!(std::ptr::addr_eq(place, &raw const *sleep), "the memory is kept");
        assert_eq!(waiting(), 1, "the waiter still waits, for another deadline");
        timer.reset(&mut sleep, timer.now());
        block_on(sleep.as_mut());
        timer.reset(&mut sleep, timer.now() + Duration::from_millis(1));
        block_on(sleep.as_mut());
        assert_eq!(waiting(), 0);

        // A deadline beyond the clock's range never expires.
        assert!(!is_over(&mut timer.sleep(Duration::MAX)));
        let mut foreign: Pin<Box<dyn Sleep>> = Box::pin(Foreign);
        timer.reset(&mut foreign, timer.now() + LONG);
        assert!(!is_over(&mut foreign), "it was replaced by the timer's sleep");
    }

    let runtime = Runtime::<Host>::builder(Topology::host().unwrap());
    let usable = coreshard_platform::affinity().unwrap();
    let runtime = runtime.usable(usable).build().unwrap();
    let queue = runtime.workqueue().build().unwrap();
    check(&queue, &|| runtime.delayed_items());
    check(&runtime, &|| runtime.delayed_items());

    // A sleep of another runtime is replaced: it would be removed from the wrong timers.
    let other = Runtime::<Host>::builder(Topology::host().unwrap()).build().unwrap();
    let mut sleep = Timer::sleep(&other, LONG);
    assert!(!is_over(&mut sleep));
    Timer::reset(&runtime, &mut sleep, Timer::now(&runtime) + LONG);
    assert_eq!(other.delayed_items(), 0);
    assert!(!is_over(&mut sleep));
    assert_eq!(runtime.delayed_items(), 1);
}

/// A task that waits for a sleep is woken when the sleep is reset, to learn the new deadline.
#[cfg(feature = "hyper")]
#[test]
fn a_sleep_that_is_reset_wakes_whoever_waits_for_it() {
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Wake, Waker};
    use std::time::Duration;

    use coreshard_platform::Host;
    use coreshard_topology::Topology;
    use coreshard_workqueue::Runtime;

    struct Tells(mpsc::Sender<()>);
    impl Wake for Tells {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }

    let runtime = Runtime::<Host>::builder(Topology::host().unwrap()).build().unwrap();
    let mut sleep = Box::pin(runtime.sleep(Duration::from_secs(3600)).unwrap());
    let (sender, receiver) = mpsc::channel();
    let waker = Waker::from(Arc::new(Tells(sender)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    sleep.reset(Duration::from_millis(1)).unwrap();
    receiver.recv_timeout(testing::NEVER).unwrap();
    while sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        receiver.recv_timeout(testing::NEVER).unwrap();
    }
    assert!(sleep.reset(Duration::MAX).is_err(), "beyond the clock's range");
}

//! Workers inside a tokio runtime: items, futures and their callees find the runtime, and both runtimes may end in any
//! order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use coreshard::{Hooks, Scope, Workqueue};
use futures_lite::future::block_on;
use testing::{NEVER, forked, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, Runtime};

fn of_threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn queue(hooks: Hooks) -> Workqueue {
    coreshard::workqueue().unwrap().name("beside").hooks(hooks).build().unwrap()
}

#[test]
fn items_and_futures_find_tokio() {
    within(NEVER, || {
        let tokio = of_threads();
        let queue = queue(coreshard::integration::tokio::enter(tokio.handle()));
        let id = tokio.handle().id();

        let here = queue.submit(move || Handle::current().id() == id).unwrap();
        assert!(here.join().unwrap());
        let spawned = queue.submit(|| tokio::spawn(async { 1 })).unwrap().join().unwrap();
        assert_eq!(tokio.block_on(spawned).unwrap(), 1);
        let blocked = queue.submit(|| {
            coreshard::blocking(|| {
                Handle::current().block_on(async { tokio::task::yield_now().await })
            });
            tokio::task::block_in_place(|| 2)
        });
        assert_eq!(blocked.unwrap().join().unwrap(), 2);
        let mut parts = [0; 64];
        queue.scope(|scope| {
            for part in &mut parts {
                scope.queue(|| *part = u64::from(Handle::try_current().is_ok())).unwrap();
            }
        });
        assert_eq!(parts, [1; 64]);

        let echoed = queue.spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            });
            let mut stream = TcpStream::connect(address).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            stream.write_all(b"hello").await.unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await.unwrap();
            server.await.unwrap();
            bytes
        });
        assert_eq!(tokio.block_on(echoed.unwrap()), *b"hello");
    });
}

/// Results, tasks and sleeps of Coreshard's under tokio's threads.
#[test]
fn tokio_awaits_what_is_coreshards() {
    within(NEVER, || {
        let tokio = of_threads();
        let queue = queue(Hooks::new());
        tokio.block_on(async {
            assert_eq!(queue.submit(|| 1).unwrap().await.unwrap(), 1);
            assert_eq!(queue.spawn(async { 2 }).unwrap().await, 2);
            let outcome =
                coreshard::timeout(Duration::from_millis(1), std::future::pending::<()>());
            assert!(outcome.await.is_err());
            let task = queue.spawn(async { Handle::try_current().is_err() });
            assert!(task.unwrap().await, "no hook has entered");
        });
    });
}

#[test]
fn each_queue_may_have_a_runtime_of_its_own() {
    within(NEVER, || {
        let (one, other) = (of_threads(), of_threads());
        let ids = [one.handle().id(), other.handle().id()];
        let (in_one, in_other) = (
            coreshard::integration::tokio::enter(one.handle()),
            coreshard::integration::tokio::enter(other.handle()),
        );
        let first = queue(in_one.clone());
        let shares = queue(in_one.clone());
        let second = queue(in_other.clone());
        let both = queue(in_one.and(in_other));
        let id_of =
            |queue: &Workqueue| queue.submit(|| Handle::current().id()).unwrap().join().unwrap();
        assert_eq!([&first, &shares, &second].map(id_of), [ids[0], ids[0], ids[1]]);
        assert_eq!(id_of(&both), ids[1], "the innermost");
        let pool = |queue: &Workqueue| queue.stats().pools[0].id;
        assert_eq!(pool(&first), pool(&shares));
        assert_ne!(pool(&first), pool(&second));
    });
}

/// Each worker leaves before its thread ends, with hooks of others around and inside.
#[test]
fn each_worker_leaves_what_it_has_entered() {
    within(NEVER, || {
        let tokio = of_threads();
        let inside = Arc::new(AtomicUsize::new(0));
        let (entered, left) = (Arc::clone(&inside), Arc::clone(&inside));
        let outside = Arc::new(AtomicUsize::new(0));
        let after = Arc::clone(&outside);
        let is_inside = || usize::from(Handle::try_current().is_ok());
        let hooks = Hooks::new()
            .on_stop(move |_| _ = after.fetch_add(1 - is_inside(), SeqCst))
            .and(coreshard::integration::tokio::enter(tokio.handle()))
            .on_start(move |_| _ = entered.fetch_add(is_inside(), SeqCst))
            .on_stop(move |_| _ = left.fetch_add(is_inside(), SeqCst));
        let runtime = coreshard::runtime_builder().unwrap().hooks(hooks).build().unwrap();
        for _ in 0..10 {
            let queue = runtime.workqueue().scope(Scope::Cpu).build().unwrap();
            queue.on_each_pod(|_| ()).unwrap();
            drop(queue);
        }
        let (inside, outside) = (inside.load(SeqCst), outside.load(SeqCst));
        assert!(outside > 0);
        assert_eq!(inside, 2 * outside, "as its first, and as its last");
    });
}

/// tokio's end comes first: what uses it hears so, and what does not goes on.
#[test]
fn tokios_end_may_come_first() {
    within(NEVER, || {
        let tokio = of_threads();
        let queue = queue(coreshard::integration::tokio::enter(tokio.handle()));
        let waits = queue.spawn(async { tokio::time::sleep(Duration::from_secs(3600)).await });
        let waits = waits.unwrap();
        drop(tokio);
        assert!(block_on(waits.result()).unwrap_err().is_panic(), "its timer has ended");
        let cancelled =
            queue.spawn(async { tokio::spawn(async { 1 }).await.unwrap_err().is_cancelled() });
        assert!(block_on(cancelled.unwrap()));
        let panics = queue.spawn(async { tokio::time::sleep(Duration::from_millis(1)).await });
        let error = block_on(panics.unwrap().result()).unwrap_err();
        assert!(error.is_panic(), "{error}");
        assert_eq!(queue.submit(|| 3).unwrap().join().unwrap(), 3);
        queue.shutdown(NEVER).unwrap();
    });
}

/// An item that leaks a guard harms only itself.
#[test]
fn a_guard_that_is_forgotten_keeps_no_worker() {
    within(NEVER, || {
        let tokio = of_threads();
        let queue = queue(coreshard::integration::tokio::enter(tokio.handle()));
        let handle = tokio.handle().clone();
        queue
            .submit(move || std::mem::forget(Box::leak(Box::new(handle)).enter()))
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(queue.submit(|| 1).unwrap().join().unwrap(), 1);
        drop(queue);
    });
}

/// tokio's threads are not there: `Handle::current` says so, where a wait would be for ever.
#[test]
fn a_forked_process_does_not_enter() {
    testing::own_process!();
    let tokio = of_threads();
    let in_tokio = coreshard::integration::tokio::enter(tokio.handle());
    let before = queue(in_tokio.clone());
    assert!(before.submit(|| Handle::try_current().is_ok()).unwrap().join().unwrap());
    let ended = forked(|| {
        let queue = queue(in_tokio.clone());
        let entered = queue.submit(|| Handle::try_current().is_ok()).unwrap().join().unwrap();
        drop(queue);
        if entered { Err("the child has entered") } else { Ok(()) }
    });
    ended.unwrap();
}

fn of_one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Clients that each send messages in succession to a server that echoes them, all on the queue.
async fn echoes(queue: &Workqueue, clients: u32, messages: u32) -> u32 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let own = queue.clone();
    let accepts = queue.spawn(async move {
        for _ in 0..clients {
            let (mut stream, _) = listener.accept().await.unwrap();
            let serve = own.spawn(async move {
                let mut bytes = [0; 4];
                while stream.read_exact(&mut bytes).await.is_ok() {
                    stream.write_all(&bytes).await.unwrap();
                }
            });
            serve.unwrap().detach();
        }
    });
    let clients: Vec<_> = (0..clients)
        .map(|client| {
            let ask = queue.spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let mut right = 0;
                for message in 0..messages {
                    let sent = (client << 16 | message).to_le_bytes();
                    stream.write_all(&sent).await.unwrap();
                    let mut bytes = [0; 4];
                    stream.read_exact(&mut bytes).await.unwrap();
                    right += u32::from(bytes == sent);
                }
                right
            });
            ask.unwrap()
        })
        .collect();
    let mut right = 0;
    for client in clients {
        right += client.await;
    }
    accepts.unwrap().await;
    right
}

#[test]
fn workers_drive_a_runtime_that_has_no_thread() {
    within(NEVER, || {
        let hooks = coreshard::integration::tokio::drive(of_one_thread()).unwrap();
        for scope in [Scope::System, Scope::Cpu] {
            let builder = coreshard::workqueue().unwrap().name("driven").scope(scope);
            let queue = builder.hooks(hooks.clone()).build().unwrap();
            let own = queue.clone();
            let all = queue.spawn(async move { echoes(&own, 16, 200).await }).unwrap();
            assert_eq!(block_on(all), 16 * 200);
        }
    });
}

#[test]
fn its_timers_and_its_tasks_go_on_with_idle_and_with_busy_workers() {
    within(NEVER, || {
        let queue = queue(coreshard::integration::tokio::drive(of_one_thread()).unwrap());
        let slept = queue.spawn(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let elsewhere = tokio::task::spawn_blocking(|| 2);
            tokio::spawn(async { tokio::time::sleep(Duration::from_millis(1)).await })
                .await
                .unwrap();
            elsewhere.await.unwrap()
        });
        assert_eq!(block_on(slept.unwrap()), 2);
        // Items without end, until the timer was seen.
        let seen = Arc::new(AtomicUsize::new(0));
        fn go_on(queue: &Workqueue, seen: &Arc<AtomicUsize>) {
            if seen.load(SeqCst) == 0 {
                let (again, seen) = (queue.clone(), Arc::clone(seen));
                queue.queue(move || go_on(&again, &seen)).unwrap();
            }
        }
        (0..16).for_each(|_| go_on(&queue, &seen));
        let see = Arc::clone(&seen);
        let slept = queue.spawn(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            see.store(1, SeqCst);
        });
        block_on(slept.unwrap());
    });
}

#[test]
fn a_runtime_with_threads_comes_back() {
    let error = coreshard::integration::tokio::drive(of_threads()).unwrap_err();
    assert!(error.to_string().contains("new_current_thread"), "{error}");
    assert_eq!(error.into_runtime().block_on(async { 5 }), 5);
}

/// tokio's own destructor of a runtime panics there.
#[test]
fn what_is_driven_may_end_inside_another_runtime() {
    within(NEVER, || {
        let tokio = of_threads();
        tokio.block_on(async {
            let hooks = coreshard::integration::tokio::drive(of_one_thread()).unwrap();
            let queue = queue(hooks.clone());
            assert!(queue.submit(|| Handle::try_current().is_ok()).unwrap().await.unwrap());
            drop((queue, hooks));
        });
    });
}

#[test]
fn a_forked_process_does_not_drive() {
    testing::own_process!();
    let hooks = coreshard::integration::tokio::drive(of_one_thread()).unwrap();
    let before = queue(hooks.clone());
    assert!(before.submit(|| Handle::try_current().is_ok()).unwrap().join().unwrap());
    let ended = forked(|| {
        let queue = queue(hooks.clone());
        let answers: Vec<_> =
            (0..100).map(|number| queue.submit(move || number).unwrap().join().unwrap()).collect();
        drop(queue);
        if answers.into_iter().eq(0..100) { Ok(()) } else { Err("wrong answers") }
    });
    ended.unwrap();
}

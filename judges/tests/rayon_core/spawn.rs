//! `rayon-core/src/spawn/test.rs`.

use std::sync::{Arc, Mutex, mpsc};

use judges::{default_queue, judge, pool, queue, text_of};

#[test]
fn spawn_then_join_in_worker() {
    judge(|| {
        let queue = default_queue();
        let (tx, rx) = mpsc::channel();
        let inner = queue.clone();
        queue.install(move || inner.queue(move || tx.send(22).unwrap()).unwrap()).unwrap();
        assert_eq!(rx.recv(), Ok(22));
    });
}

#[test]
fn spawn_then_join_outside_worker() {
    judge(|| {
        let queue = default_queue();
        let (tx, rx) = mpsc::channel();
        queue.queue(move || tx.send(22).unwrap()).unwrap();
        assert_eq!(rx.recv(), Ok(22));
    });
}

#[test]
fn panic_fwd() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let handler = move |payload: Box<dyn std::any::Any + Send>| {
            tx.send(text_of(payload.as_ref()) == "Hello, world!").unwrap();
        };
        let queue = queue(2, |builder| builder.panic_handler(handler));
        queue.queue(|| panic!("Hello, world!")).unwrap();
        assert_eq!(rx.recv(), Ok(true));
    });
}

/// The handle goes while an item runs, which queues one more.
#[test]
fn termination_while_things_are_executing() {
    judge(|| {
        let (tx0, rx0) = mpsc::channel();
        let (tx1, rx1) = mpsc::channel();
        let queue = pool(2);
        let inner = queue.clone();
        let outer = move || {
            let data: i32 = rx0.recv().unwrap();
            inner.queue(move || tx1.send(data).unwrap()).unwrap();
        };
        queue.queue(outer).unwrap();
        drop(queue);
        tx0.send(22).unwrap();
        assert_eq!(rx1.recv(), Ok(22));
    });
}

#[test]
fn custom_panic_handler_and_spawn() {
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let handler = move |payload| tx.send(payload).unwrap();
        queue(2, |builder| builder.panic_handler(handler))
            .queue(|| panic!("Hello, world!"))
            .unwrap();
        // The payload itself, not a text about it.
        let payload: Box<dyn std::any::Any + Send> = rx.recv().unwrap();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"Hello, world!"));
    });
}

#[test]
fn custom_panic_handler_and_nested_spawn() {
    const PANICS: usize = 3;
    judge(|| {
        let (tx, rx) = mpsc::channel();
        let handler = move |payload| tx.send(payload).unwrap();
        let queue = queue(2, |builder| builder.panic_handler(handler));
        let inner = queue.clone();
        let outer = move || {
            for _ in 0..PANICS {
                inner.queue(|| panic!("Hello, world!")).unwrap();
            }
        };
        queue.queue(outer).unwrap();
        for _ in 0..PANICS {
            let payload: Box<dyn std::any::Any + Send> = rx.recv().unwrap();
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"Hello, world!"));
        }
    });
}

#[test]
fn fifo_order() {
    judge(|| {
        let queue = queue(1, |builder| builder.ordered());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (inner, numbers) = (queue.clone(), Arc::clone(&seen));
        let all = move || {
            for tens in 0..10 {
                let (queue, numbers) = (inner.clone(), Arc::clone(&numbers));
                let each = move || {
                    for ones in 0..10 {
                        let numbers = Arc::clone(&numbers);
                        let push = move || numbers.lock().unwrap().push(tens * 10 + ones);
                        queue.queue(push).unwrap();
                    }
                };
                inner.queue(each).unwrap();
            }
        };
        queue.queue(all).unwrap();
        queue.drain().unwrap();
        assert_eq!(*seen.lock().unwrap(), (0..100).collect::<Vec<_>>());
    });
}

/// Two queues over the same pool, fed in turn by one item: each keeps its own order.
#[test]
fn mixed_fifo_order() {
    judge(|| {
        let runtime = judges::runtime(1);
        let ordered = || runtime.workqueue().ordered().build().unwrap();
        let (first, second) = (ordered(), ordered());
        let (tx, rx) = mpsc::channel();
        for number in [0, -1, 1, -2, 2, -3, 3] {
            let tx = tx.clone();
            let queue = if number < 0 { &second } else { &first };
            queue.queue(move || tx.send(number).unwrap()).unwrap();
        }
        drop(tx);
        let (positive, negative): (Vec<i32>, Vec<i32>) = rx.iter().partition(|n| *n >= 0);
        assert_eq!(positive, [0, 1, 2, 3]);
        assert_eq!(negative, [-1, -2, -3]);
    });
}

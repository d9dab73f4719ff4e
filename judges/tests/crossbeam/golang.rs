//! `crossbeam-channel/tests/golang.rs`: programs of goroutines and channels. A goroutine is a task on a queue of two
//! workers. A channel has a capacity of at least one value, while Go also has channels without capacity.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use coreshard::{Task, Workqueue, yield_now};
use judges::{Receiver, Sender, block_on, channel, judge, poll_once, pool, sleep_ms, unbounded};

fn go(queue: &Workqueue, routine: impl Future<Output = ()> + Send + 'static) {
    queue.spawn(routine).unwrap().detach();
}

/// `fifo::asynch_fifo`.
#[test]
fn asynch_fifo() {
    judge(|| {
        let (tx, rx) = channel(10);
        block_on(async {
            for number in 0..10 {
                assert!(tx.send(number).await);
            }
            for number in 0..10 {
                assert_eq!(rx.recv().await, Some(number));
            }
        });
    });
}

/// `fifo::synch_fifo`: receivers that take turns get the values in order.
#[test]
fn synch_fifo() {
    judge(|| {
        let queue = pool(2);
        let (tx, rx) = channel(1);
        let (start, mut turn) = channel(1);
        for number in 0..10 {
            let (next, after) = channel(1);
            let rx = rx.clone();
            go(&queue, async move {
                turn.recv().await;
                assert_eq!(rx.recv().await, Some(number));
                next.send(()).await;
            });
            turn = after;
        }
        block_on(async {
            start.send(()).await;
            for number in 0..10 {
                tx.send(number).await;
            }
            assert_eq!(turn.recv().await, Some(()));
        });
    });
}

/// `goroutines`: a chain of tasks that hand a value from the right to the left.
#[test]
fn goroutines() {
    judge(|| {
        let queue = pool(2);
        let (mut left, leftmost) = channel(1);
        for _ in 0..10_000 {
            let (right, from) = channel(1);
            let to = left;
            go(&queue, async move {
                to.send(from.recv().await.unwrap()).await;
            });
            left = right;
        }
        go(&queue, async move {
            left.send(1).await;
        });
        assert_eq!(block_on(leftmost.recv()), Some(1));
    });
}

/// `doubleselect`: a value that is sent into any of several channels arrives once.
#[test]
fn doubleselect() {
    const ITERATIONS: usize = 10_000;
    judge(|| {
        let queue = pool(2);
        let (out, merged) = channel(1);
        let senders: Vec<Sender<usize>> = (0..4)
            .map(|_| {
                let (tx, rx) = channel(1);
                let out = out.clone();
                go(&queue, async move {
                    while let Some(value) = rx.recv().await {
                        out.send(value).await;
                    }
                });
                tx
            })
            .collect();
        drop(out);
        go(&queue, async move {
            for number in 0..ITERATIONS {
                senders[number * 7 % 4].send(number).await;
            }
        });
        let mut seen = HashSet::new();
        while let Some(value) = block_on(merged.recv()) {
            assert!(seen.insert(value), "{value} came twice");
        }
        assert_eq!(seen.len(), ITERATIONS);
    });
}

/// `nonblock`: who finds nothing goes on, and finds it later.
#[test]
fn nonblock() {
    judge(|| {
        let queue = pool(2);
        let (tx, rx) = channel(1);
        assert_eq!(rx.try_recv(), None);
        let (strobe, strobed) = channel(1);
        go(&queue, async move {
            tx.send("hello").await;
            strobe.send(()).await;
        });
        block_on(strobed.recv());
        assert_eq!((rx.try_recv(), rx.try_recv()), (Some("hello"), None));
    });
}

/// `select4`, `select6`: of two futures the one that is ready is taken, and the other one is none the worse.
#[test]
fn select4() {
    judge(|| {
        let ((tx, rx), (_never_sends, never)) = (channel(1), channel::<i32>(1));
        block_on(tx.send(42));
        let mut receive_never = Box::pin(never.recv());
        assert!(poll_once(&mut receive_never).is_none());
        assert_eq!(poll_once(Box::pin(rx.recv())), Some(Some(42)));
        assert!(poll_once(&mut receive_never).is_none());
    });
}

/// `sieve1`: the primes below a hundred, each with a task that filters its multiples.
#[test]
fn sieve1() {
    async fn generate(out: Sender<u32>) {
        let mut number = 2;
        while out.send(number).await {
            number += 1;
        }
    }
    async fn filter(from: Receiver<u32>, out: Sender<u32>, prime: u32) {
        while let Some(number) = from.recv().await {
            if number % prime != 0 && !out.send(number).await {
                break;
            }
        }
    }
    judge(|| {
        let queue = pool(2);
        let (first, mut numbers) = channel(1);
        go(&queue, generate(first));
        let mut primes = Vec::new();
        while primes.last().is_none_or(|prime| *prime < 97) {
            let prime = block_on(numbers.recv()).unwrap();
            primes.push(prime);
            let (out, filtered) = channel(1);
            go(&queue, filter(numbers, out, prime));
            numbers = filtered;
        }
        let expected = [
            2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83,
            89, 97,
        ];
        assert_eq!(primes, expected);
    });
}

/// `zerosize`: values of no size go the same ways.
#[test]
fn zerosize() {
    #[derive(Debug, PartialEq)]
    struct ZeroSize;
    judge(|| {
        let queue = pool(1);
        assert_eq!(block_on(queue.spawn(async { ZeroSize }).unwrap()), ZeroSize);
        assert_eq!(block_on(queue.spawn(async { [0_u8; 0] }).unwrap()), [0_u8; 0]);
        assert_eq!(queue.submit(|| ZeroSize).unwrap().join().unwrap(), ZeroSize);
        assert_eq!(queue.install(|| ZeroSize).unwrap(), ZeroSize);
    });
}

/// `chan_test::test_chan`: receiving from an empty channel waits, sending to a full channel waits, waiting receivers
/// are woken when all senders are dropped, and many values arrive in order.
#[test]
fn test_chan() {
    judge(|| {
        let queue = pool(2);
        for capacity in [1, 2, 10, 100] {
            let (tx, rx) = channel(capacity);
            let receivers: Vec<Task<Option<usize>>> = (0..2)
                .map(|_| {
                    let rx = rx.clone();
                    queue.spawn(async move { rx.recv().await }).unwrap()
                })
                .collect();
            sleep_ms(1);
            assert!(!receivers.iter().any(Task::is_finished));
            block_on(async {
                tx.send(0).await;
                tx.send(0).await;
            });
            assert!(receivers.into_iter().all(|task| block_on(task) == Some(0)));

            (0..capacity).for_each(|number| assert!(block_on(tx.send(number))));
            let full = tx.clone();
            let sends = queue.spawn(async move { full.send(capacity).await }).unwrap();
            sleep_ms(1);
            assert!(!sends.is_finished());
            assert_eq!(block_on(rx.recv()), Some(0));
            assert!(block_on(sends));
            (1..=capacity).for_each(|number| assert_eq!(block_on(rx.recv()), Some(number)));

            let many = tx.clone();
            go(&queue, async move {
                for number in 0..100 {
                    many.send(number).await;
                }
            });
            (0..100).for_each(|number| assert_eq!(block_on(rx.recv()), Some(number)));

            let waits = rx.clone();
            let waits = queue.spawn(async move { waits.recv().await }).unwrap();
            sleep_ms(1);
            drop(tx);
            assert_eq!(block_on(waits), None);
        }
    });
}

/// `chan_test::test_nonblock_recv_race`: the last sender is dropped while a present value is received.
#[test]
fn test_nonblock_recv_race() {
    judge(|| {
        let queue = pool(2);
        for _ in 0..1_000 {
            let (tx, rx) = channel(1);
            block_on(tx.send(1));
            let receive = queue.spawn(async move { rx.try_recv() }).unwrap();
            drop(tx);
            assert_eq!(block_on(receive), Some(1));
        }
    });
}

/// `chan_test::test_select_stress`: senders and receivers of several channels at once.
#[test]
fn test_select_stress() {
    const COUNT: usize = 2_000;
    judge(|| {
        let queue = pool(2);
        let received = Arc::new(AtomicUsize::new(0));
        let mut routines = Vec::new();
        for capacity in [1, 1, 2, 3] {
            let (tx, rx) = channel(capacity);
            let again = tx.clone();
            for tx in [tx, again] {
                let send = async move {
                    for _ in 0..COUNT {
                        assert!(tx.send(0).await);
                    }
                };
                routines.push(queue.spawn(send).unwrap());
            }
            for rx in [rx.clone(), rx] {
                let received = Arc::clone(&received);
                let receive = async move {
                    while rx.recv().await.is_some() {
                        received.fetch_add(1, SeqCst);
                    }
                };
                routines.push(queue.spawn(receive).unwrap());
            }
        }
        routines.into_iter().for_each(block_on);
        assert_eq!(received.load(SeqCst), 4 * 2 * COUNT);
    });
}

/// `chan_test::test_multi_consumer`: what many send through many goes through once.
#[test]
fn test_multi_consumer() {
    const WORKERS: usize = 23;
    const ITEMS: usize = 10_000;
    judge(|| {
        let queue = pool(2);
        let ((tx, rx), (results, all)) = (channel(WORKERS * 3), channel(WORKERS * 3));
        for worker in 0..WORKERS {
            let (rx, results) = (rx.clone(), results.clone());
            go(&queue, async move {
                while let Some(number) = rx.recv().await {
                    // Some are slower than others.
                    if (number + worker) % 3 == 0 {
                        yield_now().await;
                    }
                    results.send(number).await;
                }
            });
        }
        drop(results);
        go(&queue, async move {
            for number in 0..ITEMS {
                tx.send(number).await;
            }
        });
        let mut sum = 0;
        while let Some(number) = block_on(all.recv()) {
            sum += number;
        }
        assert_eq!(sum, ITEMS * (ITEMS - 1) / 2);
    });
}

/// `race_chan_test`, `chan1`: receivers that are cancelled in the middle take nothing along.
#[test]
fn cancelled_receivers_take_nothing() {
    judge(|| {
        let queue = pool(2);
        let (tx, rx) = unbounded();
        for _ in 0..500 {
            let rx = rx.clone();
            drop(queue.spawn(async move { rx.recv().await }).unwrap());
        }
        queue.flush().unwrap();
        tx.send_now(5);
        assert_eq!(block_on(rx.recv()), Some(5));
    });
}

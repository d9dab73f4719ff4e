//! `rayon-core/tests`.

use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use coreshard::{Workqueue, join};
use judges::{default_queue, judge, meet, pool, queue};

use crate::join::partition;

/// `join`, made of a scope.
fn pseudo_join(queue: &Workqueue, first: impl FnOnce() + Send, second: impl FnOnce() + Send) {
    queue.scope(|scope| {
        scope.queue(second).unwrap();
        first();
    });
}

fn quick_sort<T: PartialOrd + Send>(queue: &Workqueue, elements: &mut [T]) {
    if elements.len() > 1 {
        let middle = partition(elements);
        let (low, high) = elements.split_at_mut(middle);
        pseudo_join(queue, || quick_sort(queue, low), || quick_sort(queue, &mut high[1..]));
    }
}

/// 256 scopes, each inside another: numbers in descending order are the worst case.
#[test]
fn scope_join() {
    judge(|| {
        let mut numbers: Vec<i32> = (0..256).rev().collect();
        quick_sort(&pool(4), &mut numbers);
        assert!(numbers.is_sorted());
    });
}

/// As above, from inside a worker.
#[test]
fn scope_join_in_pool() {
    judge(|| {
        let queue = pool(4);
        let mut numbers: Vec<i32> = (0..256).rev().collect();
        queue.install(|| quick_sort(&queue, &mut numbers)).unwrap();
        assert!(numbers.is_sorted());
    });
}

#[test]
#[should_panic(expected = "should panic")]
fn simple_panic() {
    judge(|| {
        join(|| {}, || panic!("should panic"));
    });
}

#[test]
#[should_panic(expected = "should panic")]
fn simple_panic_in_pool() {
    judge(|| drop(default_queue().install(|| join(|| {}, || panic!("should panic")))));
}

thread_local! {
    static LOCAL: Cell<i32> = const { Cell::new(0) };
}

/// A worker does not see the thread-local values of the caller's thread.
#[test]
fn missing_scoped_tls() {
    judge(|| {
        LOCAL.set(42);
        assert_eq!(pool(1).install(|| LOCAL.get()).unwrap(), 0);
        assert_eq!(LOCAL.get(), 42);
    });
}

/// Items find the thread-local values that a hook sets in their worker.
#[test]
fn spawn_scoped_tls_threadpool() {
    judge(|| {
        LOCAL.set(-1);
        let hooks = coreshard::Hooks::new().on_start(|_| LOCAL.set(42));
        let queue = queue(3, |builder| builder.hooks(hooks));
        let all = std::sync::Barrier::new(3);
        queue.scope(|scope| {
            for _ in 0..3 {
                let look = || {
                    meet(&all);
                    assert_eq!(LOCAL.get(), 42);
                };
                scope.queue(look).unwrap();
            }
        });
    });
}

/// Takes a megabyte of stack for each level.
fn take_stack(depth: u32) {
    let mut buffer = [0_u8; 1024 * 1024];
    std::hint::black_box(&mut buffer);
    if depth > 0 {
        take_stack(depth - 1);
    }
    std::hint::black_box(&mut buffer);
}

fn run_with_stack(megabytes: usize) {
    queue(1, |builder| builder.stack_bytes(megabytes << 20)).install(|| take_stack(32)).unwrap();
}

/// A run of this program that does nothing but one test, and leaves no memory image.
fn run_alone(test: &str) -> ExitStatus {
    let program = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", "ulimit -c 0; exec \"$0\" --ignored --exact \"$1\""])
        .arg(program)
        .arg(format!("integration::{test}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
}

/// A stack that overflows ends the process by a signal, and does not write over anything.
#[test]
fn stack_overflow_crash() {
    const SIGABRT: i32 = 6;
    const SIGSEGV: i32 = 11;
    judge(|| {
        let small = run_alone("run_with_small_stack");
        assert!(matches!(small.signal(), Some(SIGABRT | SIGSEGV)), "{small}");
        let large = run_alone("run_with_large_stack");
        assert_eq!(large.code(), Some(0), "{large}");
    });
}

#[test]
#[ignore = "for `stack_overflow_crash` alone: it ends the process"]
fn run_with_small_stack() {
    judge(|| run_with_stack(8));
}

#[test]
#[ignore = "for `stack_overflow_crash` alone"]
fn run_with_large_stack() {
    judge(|| run_with_stack(48));
}

/// A thread that is not a worker runs the body of a scope, while workers run the items.
#[test]
fn use_current_thread_basic() {
    judge(|| {
        let here = std::thread::current().id();
        let (tx, rx) = std::sync::mpsc::channel();
        let body = pool(1).scope(|scope| {
            scope.queue(move || tx.send(std::thread::current().id()).unwrap()).unwrap();
            assert_ne!(rx.recv().unwrap(), here, "it runs though this thread is blocked");
            std::thread::current().id()
        });
        assert_eq!(body, here);
    });
}

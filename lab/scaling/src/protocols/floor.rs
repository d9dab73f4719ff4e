//! The lower bound: each waiting thread is woken as early as the machine allows, and then does its share of the work. Threads do not
//! search, steal or decide.
//!
//! A wake-up holds its caller up for some time, and takes longer until the woken thread runs. Both are measured at the start. The best
//! broadcast follows from them: every thread that runs wakes the next ones for as long as that is sooner than anyone else could.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Platform, ThreadHandle, ThreadSpec};
use coreshard_sim::Sim;
use coreshard_topology::CpuSet;

use super::Threads;
use crate::body::Body;
use crate::executor::{Executor, Items};

type AtomicU32 = <Sim as Platform>::AtomicU32;

#[derive(Clone, Default)]
enum Share {
    #[default]
    End,
    Elements(u32, Body),
    Items(u32, Arc<Items>),
}

struct Shared {
    /// A word for each thread: counts what it was woken for.
    words: Vec<Padded<AtomicU32>>,
    left: Padded<AtomicU32>,
    share: Mutex<Share>,
    /// The threads that take part in this load.
    plan: Mutex<Arc<Plan>>,
}

/// A broadcast to some threads.
#[derive(Default)]
struct Plan {
    /// By thread, the threads that it wakes, in order; the caller's are the last.
    wakes: Vec<Vec<usize>>,
    /// The first thread that takes part; the others follow.
    first: usize,
    /// Until the last of them runs.
    reach_ns: u64,
}

/// The caller of a load is the root of the tree, and takes no share.
pub(crate) struct Floor {
    shared: Arc<Shared>,
    wake_up: WakeUp,
    threads: Mutex<Threads>,
    /// Items of a burst that were submitted.
    submitted: Mutex<u32>,
}

impl Floor {
    pub(crate) fn start(cpus: &CpuSet) -> Self {
        let word = || Padded::new(AtomicU32::new(0));
        let shared = Arc::new(Shared {
            words: cpus.iter().map(|_| word()).collect(),
            left: word(),
            share: Mutex::default(),
            plan: Mutex::default(),
        });
        let start = |(index, cpu)| {
            let shared = Arc::clone(&shared);
            let spec = ThreadSpec {
                name: format!("thread-{index}"),
                affinity: Some([cpu].into_iter().collect()),
                ..ThreadSpec::default()
            };
            Sim::spawn(spec, Box::new(move || shared.run(index))).expect("room for the thread")
        };
        let threads = cpus.iter().enumerate().map(start).collect();
        let wake_up = WakeUp::measure(cpus);
        Self { shared, wake_up, threads: Mutex::new(threads), submitted: Mutex::default() }
    }

    /// `cost_ns` is the time that each of a number of threads takes, once it runs.
    fn begin(&self, share: Share, cost_ns: impl Fn(u64) -> u64) {
        let count = self.shared.words.len();
        let plans = (1..=count).map(|threads| Plan::new(count, threads, self.wake_up));
        let all = plans.map(|plan| (plan.reach_ns + cost_ns((count - plan.first) as u64), plan));
        let (_, best) = all.min_by_key(|(ns, _)| *ns).expect("there is a thread");
        let best = Arc::new(best);
        *self.shared.plan.lock().expect("no thread panics") = Arc::clone(&best);
        *self.shared.share.lock().expect("no thread panics") = share;
        self.shared.left.store((count - best.first) as u32, Relaxed);
        self.shared.wake_planned(&best, count);
    }
}

impl Executor for Floor {
    fn submit(&self, items: &Arc<Items>) {
        let mut submitted = self.submitted.lock().expect("no thread panics");
        *submitted += 1;
        if *submitted == items.count() {
            *submitted = 0;
            let (count, each_ns) = (u64::from(items.count()), items.each().as_nanos() as u64);
            let cost_ns = |threads: u64| (count.div_ceil(threads) - 1) * each_ns;
            self.begin(Share::Items(items.count(), Arc::clone(items)), cost_ns);
        }
    }

    fn run_loop(&self, elements: u32, body: &Body) -> bool {
        let each_ns = body.each().as_nanos() as u64;
        let cost_ns = |threads: u64| u64::from(elements).div_ceil(threads) * each_ns;
        self.begin(Share::Elements(elements, body.clone()), cost_ns);
        loop {
            let left = self.shared.left.load(Acquire);
            if left == 0 {
                return true;
            }
            Sim::wait(&self.shared.left, left, None);
        }
    }

    fn end(&self) {
        // Uses all threads: a missing one costs more than any.
        self.begin(Share::End, |threads| (self.shared.words.len() as u64 - threads) << 32);
        let threads = std::mem::take(&mut *self.threads.lock().expect("no thread panics"));
        threads.into_iter().for_each(ThreadHandle::join);
    }
}

impl Shared {
    fn wake_planned(&self, plan: &Plan, waker: usize) {
        for &index in &plan.wakes[waker] {
            self.words[index].fetch_add(1, Release);
            Sim::wake_one(&raw const *self.words[index]);
        }
    }

    fn run(&self, index: usize) {
        let mut seen = 0;
        loop {
            while self.words[index].load(Acquire) == seen {
                Sim::wait(&self.words[index], seen, None);
            }
            seen += 1;
            let plan = Arc::clone(&self.plan.lock().expect("no thread panics"));
            self.wake_planned(&plan, index);
            let (count, index) = (self.words.len() - plan.first, index - plan.first);
            let share = self.share.lock().expect("no thread panics").clone();
            let before = |all: u32, index: usize| {
                let (count, index) = (count as u32, index as u32);
                index * (all / count) + index.min(all % count)
            };
            let own = |all: u32| before(all, index)..before(all, index + 1);
            match &share {
                Share::End => return,
                Share::Elements(all, body) => body.run(own(*all)),
                Share::Items(all, items) => own(*all).for_each(|_| items.run()),
            }
            if self.left.fetch_sub(1, AcqRel) == 1 {
                Sim::wake_one(&raw const *self.left);
            }
        }
    }
}

/// The cost of waking a thread that has slept for 10 ms, in nanoseconds.
#[derive(Clone, Copy)]
struct WakeUp {
    caller_ns: u64,
    until_it_runs_ns: u64,
}

impl WakeUp {
    /// Measures it between the first and the last CPU, as a median.
    fn measure(cpus: &CpuSet) -> Self {
        const TIMES: usize = 9;
        let word = Arc::new((AtomicU32::new(0), std::sync::atomic::AtomicU64::new(0)));
        let sleeper = Arc::clone(&word);
        let body = move || {
            for seen in 0..TIMES as u32 {
                while sleeper.0.load(Acquire) == seen {
                    Sim::wait(&sleeper.0, seen, None);
                }
                sleeper.1.store(Sim::virtual_time().as_nanos() as u64, Relaxed);
            }
        };
        let spec = ThreadSpec {
            affinity: cpus.last().map(|cpu| [cpu].into_iter().collect()),
            ..ThreadSpec::default()
        };
        let thread = Sim::spawn(spec, Box::new(body)).expect("room for the thread");
        let mut calls = Vec::new();
        let mut ways = Vec::new();
        for _ in 0..TIMES {
            Sim::sleep(Duration::from_millis(10));
            let began = Sim::virtual_time().as_nanos() as u64;
            word.0.fetch_add(1, Release);
            Sim::wake_one(&raw const word.0);
            calls.push(Sim::virtual_time().as_nanos() as u64 - began);
            Sim::sleep(Duration::from_millis(1));
            ways.push(word.1.load(Relaxed) - began);
        }
        thread.join();
        calls.sort_unstable();
        ways.sort_unstable();
        Self { caller_ns: calls[TIMES / 2].max(1), until_it_runs_ns: ways[TIMES / 2] }
    }
}

impl Plan {
    /// Of `count` threads, the last `threads` take part, and run as early as can be.
    fn new(count: usize, threads: usize, wake_up: WakeUp) -> Self {
        let mut wakes = vec![Vec::new(); count + 1];
        let mut free = BinaryHeap::from([Reverse((0, count))]);
        let (first, mut reach_ns) = (count - threads, 0);
        // The first thread has the caller's CPU: it comes last.
        for index in (first..count).rev() {
            let Reverse((at_ns, waker)) = free.pop().expect("a waker stays in the heap");
            let runs_ns = at_ns + wake_up.until_it_runs_ns;
            wakes[waker].push(index);
            free.push(Reverse((at_ns + wake_up.caller_ns, waker)));
            free.push(Reverse((runs_ns, index)));
            reach_ns = reach_ns.max(runs_ns);
        }
        Self { wakes, first, reach_ns }
    }
}

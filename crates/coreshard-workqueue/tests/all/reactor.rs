//! Workers that wait in a reactor.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology, Usable};
use coreshard_workqueue::{
    Hooks, Intake, Reactor, Runtime, SharedReactor, Wake, Workqueue, blocking, current,
};
use testing::{NEVER, wait_until};

/// An event from outside. It is called as a waker would be.
type Event = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Events {
    state: Mutex<State>,
    changed: Condvar,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Event>,
    woken: bool,
}

impl Events {
    fn arrive(&self, event: impl FnOnce() + Send + 'static) {
        self.state.lock().unwrap().ready.push_back(Box::new(event));
        self.changed.notify_all();
    }
}

struct Outside(Arc<Events>);

impl Outside {
    fn look(&self, waits: bool) {
        let events = &self.0;
        let inside = events.inside.fetch_add(1, SeqCst) + 1;
        events.most_inside.fetch_max(inside, SeqCst);
        let state = events.state.lock().unwrap();
        let is_quiet = |state: &mut State| waits && state.ready.is_empty() && !state.woken;
        let mut state = events.changed.wait_while(state, is_quiet).unwrap();
        state.woken = false;
        let ready = std::mem::take(&mut state.ready);
        drop(state);
        ready.into_iter().for_each(|event| event());
        events.inside.fetch_sub(1, SeqCst);
    }
}

impl Reactor for Outside {
    fn wait(&self) {
        self.look(true);
    }

    fn poll(&self) {
        self.look(false);
    }

    fn wake(&self) {
        self.0.state.lock().unwrap().woken = true;
        self.0.changed.notify_all();
    }
}

fn runtime() -> Runtime<Host> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap().cpus().clone();
    Runtime::builder(topology)
        .usable(usable)
        .idle_timeout(Duration::from_millis(20))
        .build()
        .unwrap()
}

fn shared(events: &Arc<Events>) -> SharedReactor {
    SharedReactor::new(Outside(Arc::clone(events)))
}

fn queue_of(runtime: &Runtime<Host>, reactor: &SharedReactor, scope: Scope) -> Workqueue<Host> {
    let hooks = Hooks::new().reactor(reactor.clone());
    runtime.workqueue().name("events").scope(scope).hooks(hooks).build().unwrap()
}

fn on_every_rung(test: impl Fn(&Arc<Events>, &SharedReactor, Workqueue<Host>)) {
    let runtime = runtime();
    for intake in [Intake::LockFree, Intake::Locked] {
        for wake in [Wake::Coalesced, Wake::AfterUnlock, Wake::UnderLock] {
            let events = Arc::new(Events::default());
            let reactor = shared(&events);
            let hooks = Hooks::new().reactor(reactor.clone());
            let queue = runtime.workqueue().name("events").scope(Scope::System).hooks(hooks);
            test(&events, &reactor, queue.intake(intake).wake(wake).build().unwrap());
            assert!(events.most_inside.load(SeqCst) <= 1, "{intake:?}, {wake:?}: one at a time");
        }
    }
}

#[test]
fn events_are_seen_by_workers_and_their_items_run() {
    on_every_rung(|events, _, queue| {
        let (told, heard) = mpsc::channel();
        for number in 0..2_000 {
            let (told, queue_here) = (told.clone(), queue.clone());
            events.arrive(move || {
                assert!(current::<Host>().is_none(), "a reactor's calls are not on a worker");
                queue_here.queue(move || told.send(number).unwrap()).unwrap();
            });
            if number % 7 == 0 {
                assert!((0..=number).contains(&heard.recv_timeout(NEVER).unwrap()));
            }
        }
        drop(told);
        let rest = 2_000 - 2_000_usize.div_ceil(7);
        assert_eq!((0..rest).map_while(|_| heard.recv_timeout(NEVER).ok()).count(), rest);
    });
}

#[test]
fn items_wake_the_worker_that_waits_there() {
    on_every_rung(|events, _, queue| {
        for round in 0..3_000_u64 {
            let answer = queue.submit(move || round).unwrap();
            assert_eq!(answer.join().unwrap(), round);
            if round % 500 == 0 {
                // Idle times expire meanwhile.
                std::thread::sleep(Duration::from_millis(30));
            }
        }
        wait_until("a worker waits there again", || events.inside.load(SeqCst) == 1);
    });
}

#[test]
fn busy_workers_look_in_now_and_then() {
    on_every_rung(|events, _, queue| {
        // Enough chains of items to keep all workers busy until the event was seen.
        fn go_on(queue: &Workqueue<Host>, seen: &Arc<AtomicBool>) {
            if !seen.load(SeqCst) {
                let (again, seen) = (queue.clone(), Arc::clone(seen));
                queue.queue(move || go_on(&again, &seen)).unwrap();
            }
        }
        let seen = Arc::new(AtomicBool::new(false));
        let workers = queue.stats().total().worker_limit;
        (0..2 * workers).for_each(|_| go_on(&queue, &seen));
        let see = Arc::clone(&seen);
        events.arrive(move || see.store(true, SeqCst));
        wait_until("the event is seen", || seen.load(SeqCst));
        queue.flush().unwrap();
    });
}

/// The worker that was in the reactor is inside a long item: another one goes there.
#[test]
fn a_sleeper_takes_over() {
    on_every_rung(|events, _, queue| {
        if queue.stats().total().worker_limit < 2 {
            return;
        }
        // Short items: workers suppress wake-ups, so no other worker is woken for the next item.
        for round in 0..500_u32 {
            assert_eq!(queue.submit(move || round).unwrap().join().unwrap(), round);
        }
        wait_until("a worker waits there", || events.inside.load(SeqCst) == 1);
        let (end, ended) = mpsc::channel::<()>();
        let long = queue.submit(move || ended.recv_timeout(NEVER)).unwrap();
        for _ in 0..20 {
            let (told, heard) = mpsc::channel();
            events.arrive(move || told.send(()).unwrap());
            heard.recv_timeout(NEVER).expect("the event is seen while an item is long");
        }
        end.send(()).unwrap();
        long.join().unwrap().unwrap();
    });
}

#[test]
fn pools_share_it_and_the_last_one_has_it() {
    let runtime = runtime();
    let events = Arc::new(Events::default());
    let reactor = shared(&events);
    let one = queue_of(&runtime, &reactor, Scope::Cpu);
    let other = queue_of(&runtime, &reactor, Scope::System);
    for round in 0..200_u32 {
        assert_eq!(one.submit(move || round).unwrap().join().unwrap(), round);
        assert_eq!(other.submit(move || round).unwrap().join().unwrap(), round);
    }
    drop(one);
    let (told, heard) = mpsc::channel();
    events.arrive(move || told.send(()).unwrap());
    heard.recv_timeout(NEVER).expect("the other queue's workers wait there");
    drop(other);
    assert_eq!(events.most_inside.load(SeqCst), 1);
    assert_eq!(events.inside.load(SeqCst), 0, "nobody stays");
}

#[test]
fn queues_come_and_go() {
    let runtime = runtime();
    let events = Arc::new(Events::default());
    let reactor = shared(&events);
    for round in 0..100 {
        let queue = queue_of(&runtime, &reactor, Scope::System);
        if round % 2 == 0 {
            let (told, heard) = mpsc::channel();
            events.arrive(move || told.send(()).unwrap());
            heard.recv_timeout(NEVER).unwrap();
        }
        queue.queue(|| ()).unwrap();
    }
    wait_until("nobody stays", || events.inside.load(SeqCst) == 0);
}

/// Code of the reactor may block: a worker inside it does not count as running.
#[test]
fn what_it_calls_may_wait_for_items() {
    on_every_rung(|events, _, queue| {
        if queue.stats().total().worker_limit < 2 {
            return;
        }
        let (told, heard) = mpsc::channel();
        let inner = queue.clone();
        events.arrive(move || {
            blocking::<Host, _>(|| ());
            // Another worker runs it, or a new one: this one is in the reactor.
            told.send(inner.submit(|| 7).unwrap()).unwrap();
        });
        assert_eq!(heard.recv_timeout(NEVER).unwrap().join().unwrap(), 7);
    });
}

struct Broken(AtomicUsize);

impl Reactor for Broken {
    fn wait(&self) {
        assert_eq!(self.0.fetch_add(1, SeqCst), 0, "it is not called again");
        panic!("a reactor's panic");
    }

    fn poll(&self) {
        self.wait();
    }

    fn wake(&self) {}
}

#[test]
fn one_that_panics_is_not_used_again() {
    let runtime = runtime();
    let queue = queue_of(&runtime, &SharedReactor::new(Broken(AtomicUsize::new(0))), Scope::System);
    for round in 0..1_000_u32 {
        assert_eq!(queue.submit(move || round).unwrap().join().unwrap(), round);
    }
}

/// An idle queue waits in its reactor once, and does not poll it.
#[test]
fn an_idle_queue_waits_once() {
    struct Counted(Arc<Events>, Arc<AtomicUsize>);
    impl Reactor for Counted {
        fn wait(&self) {
            self.1.fetch_add(1, SeqCst);
            Outside(Arc::clone(&self.0)).wait();
        }
        fn poll(&self) {
            self.1.fetch_add(1, SeqCst);
        }
        fn wake(&self) {
            Outside(Arc::clone(&self.0)).wake();
        }
    }
    let (events, calls) = (Arc::new(Events::default()), Arc::new(AtomicUsize::new(0)));
    let runtime = runtime();
    let reactor = SharedReactor::new(Counted(Arc::clone(&events), Arc::clone(&calls)));
    let _queue = queue_of(&runtime, &reactor, Scope::System);
    wait_until("a worker waits there", || events.inside.load(SeqCst) == 1);
    let before = calls.load(SeqCst);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(calls.load(SeqCst), before, "nobody looks");
}

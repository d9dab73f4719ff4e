//! Models of a change of a queue against its producers. Each was seen to fail when the step that its comment names was
//! weakened.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use coreshard_platform::{AtomicInt, Platform};
use coreshard_topology::{CpuSet, Pods, Scope, ShardSize, Topology};

use super::generations::{Generations, Origin};
use super::link::{Capacity, GateAnswer, QueueCore};
use super::results::Claimable;
use super::{PoolLink, SubmitPermit};
use crate::base::error::RefusedReason;
use crate::base::event::Event;
use crate::base::target::Target;
use crate::base::variants::{Intake, Wake};
use crate::config::attributes::{Attributes, Hooks, Place, Priority};
use crate::config::request::MaxActive;
use crate::insight::diagnostic::Watchdog;
use crate::pool::{Lease, Monitor, Pool, PoolSet, PoolSettings, Route};
use coreshard_platform::Loom;

/// A set of one pool without workers: items that enter are counted, and never sent.
fn unmanned(stack_bytes: usize) -> Lease<Loom> {
    let topology = Topology::from_synthetic("pack:1 l3:1 core:1 pu:1").unwrap();
    let cpus: CpuSet = topology.online().clone();
    let attributes = Arc::new(Attributes {
        scope: Scope::System,
        shard_cores: 8,
        mask: cpus.clone(),
        strict: true,
        nice: None,
        priority: Priority::Normal,
        wake: Wake::AfterUnlock,
        intake: Intake::Locked,
        stack_bytes: Some(stack_bytes),
        rescuer: None,
        hooks: Hooks::default(),
        team: None,
    });
    let pods = Pods::new(&topology, &cpus, Scope::System, ShardSize::default()).unwrap();
    let place = Place {
        pod: pods.iter().next().unwrap().id,
        cpus: cpus.clone(),
        node: None,
        home: cpus.clone(),
        roam: cpus,
        limit: 1,
        members: 0..0,
        injector_by_cpu: Arc::new([0]),
        thread_names: "cs-".into(),
    };
    let event = Arc::new(Event::new());
    let monitor = Arc::new(Monitor::new(Watchdog::default(), 1));
    let pool = Pool::unmanned(
        place,
        Arc::clone(&attributes),
        PoolSettings::for_models(),
        event,
        &monitor.handle,
    );
    let routes: Arc<[Route]> = Arc::new([Route { pod: 0, injector: 0 }]);
    PoolSet::lease_new(attributes, pods, Box::new([pool]), routes, Box::new([0]))
}

type Word = <Loom as Platform>::AtomicU32;

struct Model {
    generations: Generations<Loom>,
    /// All items that were accepted.
    accepted: Word,
    over: Word,
}

impl Model {
    fn new() -> Arc<Self> {
        Self::of(QueueCore::of_no_queue())
    }

    fn of(core: Arc<QueueCore<Loom>>) -> Arc<Self> {
        let generations = Generations::new(unmanned(1), &core, MaxActive::Unlimited).unwrap();
        Arc::new(Self { generations, accepted: Word::new(0), over: Word::new(0) })
    }

    /// An item that finishes as soon as it is counted in.
    fn enter(&self) -> Result<(), RefusedReason> {
        let entry = self.generations.enter_here(super::WhenFull::Wait)?;
        self.accepted.fetch_add(1, AcqRel);
        entry.abandon();
        Ok(())
    }
}

/// A producer against a change, and the reaping of past generations. Fails without the close in `publish`, and without the
/// check of `in_flight` in `reap`: an item is counted into pools without workers.
#[test]
fn loom_a_change_loses_nothing_and_leaves_nothing_without_workers() {
    Loom::check(2, || {
        let model = Model::new();
        let producer = Arc::clone(&model);
        let producer = loom::thread::spawn(move || {
            let entry = producer
                .generations
                .enter_here(super::WhenFull::Wait)
                .expect("the queue is open all the time");
            producer.accepted.fetch_add(1, AcqRel);
            assert!(entry.has_workers(), "pools that count an item in have workers");
            entry.abandon();
        });
        model.generations.change(unmanned(2), |_| ()).unwrap();
        model.generations.reap();
        producer.join().unwrap();
        assert!(!model.generations.reap(), "nothing is left in the past");
        assert_eq!(model.generations.counts(), (1, 1));
        model.enter().unwrap();
        assert_eq!(model.accepted.load(Acquire), 2);
    });
}

/// A flush against a producer: items accepted before the cut have finished after the flush, and later ones are counted
/// elsewhere. Fails if the current generation is not waited for.
#[test]
fn loom_a_flush_sees_what_came_before_it() {
    Loom::check(2, || {
        let model = Model::new();
        let producer = Arc::clone(&model);
        let producer = loom::thread::spawn(move || {
            let entry = producer
                .generations
                .enter_here(super::WhenFull::Wait)
                .expect("the queue is open all the time");
            producer.accepted.fetch_add(1, AcqRel);
            producer.over.store(1, Release);
            entry.abandon();
        });
        let was_accepted = model.accepted.load(Acquire) == 1;
        assert!(model.generations.flush(None, &Event::new()));
        assert!(!was_accepted || model.over.load(Acquire) == 1);
        producer.join().unwrap();
        assert_eq!(model.generations.in_flight(), 0);
    });
}

/// A producer against the queue's end: it is rejected, or waited for. Fails if the count is not taken back when the pool link
/// is closed, and without the check of `closed`.
#[test]
fn loom_what_is_accepted_beside_a_close_is_counted() {
    Loom::check(2, || {
        let model = Model::new();
        let producer = Arc::clone(&model);
        let producer = loom::thread::spawn(move || producer.enter());
        model.generations.close(RefusedReason::ShutDown);
        let accepted = producer.join().unwrap();
        let runs = model.accepted.load(Acquire);
        assert_eq!(accepted.is_ok(), runs == 1);
        assert_eq!(model.generations.counts(), (u64::from(runs), u64::from(runs)));
        assert!(matches!(
            model.generations.enter(Target::Here, super::WhenFull::Wait).map(drop),
            Err(RefusedReason::ShutDown)
        ));
    });
}

/// An item between the worker that reaches its place and the waiter: one of the two runs it. The pool link counts it exactly
/// once in the end, and is empty only when the item has finished and its place has left the queue.
///
/// Fails if `pass` counts nothing in (the pool link is empty while the waiter runs the item), if `pass` does not take its count
/// back, and if `end` stores instead of swapping and so never counts a relayed item.
#[test]
#[allow(unsafe_code)]
fn loom_an_item_that_its_waiter_runs_is_in_flight_until_it_is_over() {
    Loom::check(3, || {
        let model = Model::new();
        let entry = model.generations.enter_here(super::WhenFull::Wait).expect("the queue is open");
        let item = Arc::new(Claimable::new(&entry, false));
        let (link, injector) = entry.keep();
        let place = Kept(link, injector);
        let worker = {
            let (model, item) = (Arc::clone(&model), Arc::clone(&item));
            loom::thread::spawn(move || {
                if item.begin() {
                    model.run();
                }
                // SAFETY: kept above, and resumed once.
                unsafe { place.resume() }.abandon();
                model.check();
            })
        };
        if item.claim() == GateAnswer::Claimed {
            model.run();
            item.end_in_model();
            model.check();
        }
        worker.join().unwrap();
        model.check();
        assert_eq!(model.over.load(Acquire), 1);
        assert_eq!(model.generations.in_flight(), 0);
        assert_eq!(model.generations.counts(), (1, 1), "it is counted as one");
    });
}

/// An item between the worker that reaches its place and a thread that cancels it: it runs, or is returned, and is counted
/// once.
#[allow(unsafe_code)]
fn cancel_beside_a_worker(cancel: fn(&Claimable<Loom>) -> bool) {
    Loom::check(3, move || {
        let model = Model::new();
        let entry = model.generations.enter_here(super::WhenFull::Wait).expect("the queue is open");
        let item = Arc::new(Claimable::new(&entry, false));
        let (link, injector) = entry.keep();
        let place = Kept(link, injector);
        let worker = {
            let (model, item) = (Arc::clone(&model), Arc::clone(&item));
            loom::thread::spawn(move || {
                if item.begin() {
                    model.run();
                }
                // SAFETY: kept above, and resumed once.
                unsafe { place.resume() }.abandon();
            })
        };
        if cancel(&item) {
            model.run();
        }
        worker.join().unwrap();
        assert_eq!(model.over.load(Acquire), 1);
        assert_eq!(model.generations.in_flight(), 0);
        assert_eq!(model.generations.counts(), (1, 1), "it is counted as one");
    });
}

#[test]
fn loom_an_item_that_is_cancelled_comes_back_or_runs() {
    cancel_beside_a_worker(Claimable::cancel);
}

/// The model fails if the cancel checks first, and writes afterwards.
#[test]
#[should_panic(expected = "it runs once")]
fn loom_a_cancel_in_two_steps_is_found() {
    cancel_beside_a_worker(Claimable::cancel_in_two_steps);
}

/// How a producer that has room queues its item.
type Bring = fn(&Generations<Loom>) -> Result<SubmitPermit<'_, Loom>, RefusedReason>;

/// Room that is kept for an item, against the queue's end and a producer that waits for room: the item is counted in or
/// returned, the producer is notified, and the room is free once in the end.
fn room_beside_the_end(bring: Bring) {
    Loom::check(2, move || {
        let capacity = Capacity::new(1);
        let model = Model::of(QueueCore::of_no_queue_with(Some(Arc::clone(&capacity))));
        assert!(capacity.try_take(), "the room that is kept");
        let holder = {
            let (model, capacity) = (Arc::clone(&model), Arc::clone(&capacity));
            loom::thread::spawn(move || match bring(&model.generations) {
                Ok(entry) => {
                    // The item begins and finishes.
                    capacity.give_back();
                    entry.abandon();
                    1
                }
                Err(RefusedReason::ShutDown) => 0,
                Err(reason) => panic!("{reason}"),
            })
        };
        let waiting = model.generations.wait_in_line(&capacity).expect("the queue is open");
        model.generations.close(RefusedReason::ShutDown);
        let accepted = holder.join().unwrap();
        assert!(waiting.is_over(), "a waiting producer is rejected, or has room");
        drop(waiting);
        assert_eq!(model.generations.counts(), (accepted, accepted));
        let counts = capacity.counts();
        assert_eq!((counts.taken, counts.waiting), (0, 0), "the room is given back once");
    });
}

#[test]
fn loom_room_that_is_kept_is_given_back_once() {
    room_beside_the_end(|generations| generations.enter_permitted(Target::Here, Origin::Outside));
}

/// The model fails if a rejected item keeps its room.
#[test]
#[should_panic(expected = "the room is given back once")]
fn loom_room_that_goes_with_a_refused_item_is_found() {
    room_beside_the_end(|generations| generations.enter_locked(Target::Here, Origin::Outside));
}

/// The place of an item that was counted in, on its way to another thread.
struct Kept(std::ptr::NonNull<PoolLink<Loom>>, usize);

// SAFETY: a pool link is shared between threads as it is.
#[allow(unsafe_code)]
unsafe impl Send for Kept {}

impl Kept {
    /// # Safety
    /// It comes from [`SubmitPermit::keep`], and is resumed once.
    #[allow(unsafe_code)]
    unsafe fn resume<'link>(self) -> SubmitPermit<'link, Loom> {
        // SAFETY: by this function's contract.
        unsafe { SubmitPermit::resume(self.0, self.1) }
    }
}

impl Model {
    /// Runs the only item.
    fn run(&self) {
        assert_eq!(self.over.fetch_add(1, AcqRel), 0, "it runs once");
    }

    /// Nothing is in flight only if the item has finished.
    fn check(&self) {
        assert!(self.generations.in_flight() > 0 || self.over.load(Acquire) == 1);
    }
}

//! Random sequences of operations against a sequential oracle: the results of the calls, the pending
//! items, the number of runs of each item, and their order on an ordered queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology, Usable};
use coreshard_workqueue::{Runtime, Work, WorkErrorReason, Workqueue};
use proptest::prelude::*;

/// Longer than the test runs.
const LONG: Duration = Duration::from_secs(3_600);
const WORKS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    Queue(usize),
    QueueLater(usize),
    ModifyToNow(usize),
    ModifyToLater(usize),
    Cancel(usize),
    CancelAndWait(usize),
    Disable(usize),
    Enable(usize),
    FlushWork(usize),
    Closure,
    Freeze,
    Thaw,
    FlushQueue,
    Drain,
    Scope(usize),
    Limit(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let work = 0..WORKS;
    prop_oneof![
        6 => work.clone().prop_map(Step::Queue),
        2 => work.clone().prop_map(Step::QueueLater),
        2 => work.clone().prop_map(Step::ModifyToNow),
        2 => work.clone().prop_map(Step::ModifyToLater),
        2 => work.clone().prop_map(Step::Cancel),
        1 => work.clone().prop_map(Step::CancelAndWait),
        1 => work.clone().prop_map(Step::Disable),
        2 => work.clone().prop_map(Step::Enable),
        2 => work.prop_map(Step::FlushWork),
        3 => Just(Step::Closure),
        2 => Just(Step::Freeze),
        2 => Just(Step::Thaw),
        1 => Just(Step::FlushQueue),
        1 => Just(Step::Drain),
        2 => (0..Scope::ALL.len()).prop_map(Step::Scope),
        1 => (0..4_usize).prop_map(Step::Limit),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    No,
    Queued,
    Delayed,
}

/// The sequential model of a queue and its items.
#[derive(Debug)]
struct Oracle {
    pending: [Pending; WORKS],
    disables: [u32; WORKS],
    is_frozen: bool,
    /// Waiting items and closures while it is frozen, in order.
    waiting: Vec<Option<usize>>,
    /// The runs so far, in order.
    ran: Vec<Option<usize>>,
}

type Returned = Result<bool, WorkErrorReason>;

impl Oracle {
    fn new() -> Self {
        Self {
            pending: [Pending::No; WORKS],
            disables: [0; WORKS],
            is_frozen: false,
            waiting: Vec::new(),
            ran: Vec::new(),
        }
    }

    fn send(&mut self, what: Option<usize>) {
        if self.is_frozen {
            self.waiting.push(what);
        } else {
            self.run(what);
        }
    }

    fn run(&mut self, what: Option<usize>) {
        if let Some(work) = what {
            self.pending[work] = Pending::No;
        }
        self.ran.push(what);
    }

    /// Voids a queueing. Returns true if there was one.
    fn void(&mut self, work: usize) -> bool {
        self.waiting.retain(|waiting| *waiting != Some(work));
        std::mem::replace(&mut self.pending[work], Pending::No) != Pending::No
    }

    fn queue(&mut self, work: usize, pending: Pending) -> Returned {
        if self.pending[work] != Pending::No {
            return Ok(false);
        }
        if self.disables[work] > 0 {
            return Err(WorkErrorReason::Disabled);
        }
        self.pending[work] = pending;
        if pending == Pending::Queued {
            self.send(Some(work));
        }
        Ok(true)
    }

    fn modify(&mut self, work: usize, pending: Pending) -> Returned {
        if self.disables[work] > 0 {
            return Err(WorkErrorReason::Disabled);
        }
        let was_pending = self.void(work);
        self.queue(work, pending)?;
        Ok(was_pending)
    }

    fn step(&mut self, step: Step) -> Returned {
        match step {
            Step::Queue(work) => self.queue(work, Pending::Queued),
            Step::QueueLater(work) => self.queue(work, Pending::Delayed),
            Step::ModifyToNow(work) => self.modify(work, Pending::Queued),
            Step::ModifyToLater(work) => self.modify(work, Pending::Delayed),
            Step::Cancel(work) | Step::CancelAndWait(work) => Ok(self.void(work)),
            Step::Disable(work) => {
                self.disables[work] += 1;
                Ok(self.void(work))
            }
            Step::Enable(work) => match self.disables[work] {
                0 => Err(WorkErrorReason::NotDisabled),
                depth => {
                    self.disables[work] = depth - 1;
                    Ok(depth == 1)
                }
            },
            Step::FlushWork(work) => {
                let was_pending = self.pending[work] != Pending::No;
                if self.pending[work] == Pending::Delayed {
                    self.pending[work] = Pending::Queued;
                    self.send(Some(work));
                }
                Ok(was_pending)
            }
            Step::Closure => {
                self.send(None);
                Ok(true)
            }
            Step::Freeze => {
                self.is_frozen = true;
                Ok(true)
            }
            Step::Thaw => {
                self.is_frozen = false;
                for what in std::mem::take(&mut self.waiting) {
                    self.run(what);
                }
                Ok(true)
            }
            Step::FlushQueue | Step::Drain | Step::Scope(_) | Step::Limit(_) => Ok(true),
        }
    }

    /// True if the step would wait for a thaw of the queue.
    fn would_hang(&self, step: Step) -> bool {
        let waits = match step {
            Step::FlushWork(work) => self.pending[work] != Pending::No,
            Step::FlushQueue | Step::Drain => true,
            _ => false,
        };
        self.is_frozen && waits
    }
}

struct Real {
    queue: Workqueue<Host>,
    works: Vec<Work<Host>>,
    ran: Arc<Mutex<Vec<Option<usize>>>>,
    is_ordered: bool,
}

impl Real {
    fn new(runtime: &Runtime<Host>, limit: Limit) -> Self {
        let ran: Arc<Mutex<Vec<Option<usize>>>> = Arc::default();
        let works = (0..WORKS).map(|work| {
            let ran = Arc::clone(&ran);
            Work::new(move |_| ran.lock().unwrap().push(Some(work)))
        });
        let works = works.collect();
        let builder = runtime.workqueue().name("oracle");
        let builder = match limit {
            Limit::Ordered => builder.ordered(),
            Limit::Some(most) => builder.max_active(most),
            Limit::ByNode(most) => builder.max_active_by_node(most),
            Limit::None => builder,
        };
        Self { queue: builder.build().unwrap(), works, ran, is_ordered: limit == Limit::Ordered }
    }

    fn step(&self, step: Step) -> Returned {
        let queue = &self.queue;
        let reason = |result: Result<bool, coreshard_workqueue::WorkError>| {
            result.map_err(|error| error.reason())
        };
        match step {
            Step::Queue(work) => reason(self.works[work].queue(queue)),
            Step::QueueLater(work) => reason(self.works[work].queue_after(queue, LONG)),
            Step::ModifyToNow(work) => reason(self.works[work].modify_delay(queue, Duration::ZERO)),
            Step::ModifyToLater(work) => reason(self.works[work].modify_delay(queue, LONG)),
            Step::Cancel(work) => Ok(self.works[work].cancel()),
            // A disabled item cannot be queued, but it can be cancelled as usual.
            Step::CancelAndWait(work) => reason(self.works[work].cancel_and_wait()),
            Step::Disable(work) => reason(self.works[work].disable()),
            Step::Enable(work) => reason(self.works[work].enable()),
            Step::FlushWork(work) => reason(self.works[work].flush()),
            Step::Closure => {
                let ran = Arc::clone(&self.ran);
                queue.queue(move || ran.lock().unwrap().push(None)).unwrap();
                Ok(true)
            }
            Step::Freeze => queue.freeze().map(|()| true).map_err(|error| panic!("{error}")),
            Step::Thaw => queue.thaw().map(|()| true).map_err(|error| panic!("{error}")),
            Step::FlushQueue => queue.flush().map(|()| true).map_err(|error| panic!("{error}")),
            Step::Drain => queue.drain().map(|()| true).map_err(|error| panic!("{error}")),
            Step::Scope(at) => {
                queue.change().scope(Scope::ALL[at]).apply().unwrap();
                Ok(true)
            }
            Step::Limit(most) => {
                let change = queue.change().max_active(Some(most).filter(|most| *most > 0));
                assert_eq!(change.apply().is_err(), self.is_ordered);
                Ok(true)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    None,
    Some(usize),
    ByNode(usize),
    Ordered,
}

fn runtime() -> Runtime<Host> {
    let machine = Topology::from_synthetic("pack:2 numa:1 l3:1 core:1 pu:1").unwrap();
    let real = Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone();
    Runtime::builder(machine).laid_over(real).build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn operations_do_what_the_oracle_says(
        limit in prop_oneof![
            Just(Limit::None), Just(Limit::Some(2)), Just(Limit::ByNode(3)), Just(Limit::Ordered),
        ],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime = runtime();
        let real = Real::new(&runtime, limit);
        let mut oracle = Oracle::new();
        for step in steps.into_iter().chain([Step::Thaw]) {
            if oracle.would_hang(step) {
                continue;
            }
            prop_assert_eq!(real.step(step), oracle.step(step), "{:?}", step);
            if !oracle.is_frozen {
                // One step after the other, as in the oracle.
                real.queue.flush().unwrap();
            }
            for (work, handle) in real.works.iter().enumerate() {
                let is_pending = oracle.pending[work] != Pending::No;
                prop_assert_eq!(handle.is_pending(), is_pending, "{:?} after {:?}", work, step);
                prop_assert_eq!(handle.disable_depth(), oracle.disables[work]);
                prop_assert!(!handle.is_running());
            }
            let mut ran = real.ran.lock().unwrap().clone();
            let mut expected = oracle.ran.clone();
            if !real.is_ordered {
                ran.sort_unstable();
                expected.sort_unstable();
            }
            prop_assert_eq!(ran, expected, "after {:?}", step);
        }
        real.works.iter().for_each(|work| _ = work.cancel());
        real.queue.drain().unwrap();
        prop_assert_eq!(runtime.delayed_items(), 0);
        prop_assert_eq!(real.queue.stats().in_flight(), 0);
    }
}

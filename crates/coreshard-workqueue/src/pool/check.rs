//! The rules of a pool's books, in one place; `README.md` beside this file says why each holds.
//!
//! They hold whenever the lock is free: so they are looked at each time that it is about to be, where the
//! platform asks for that ([`Platform::checks_rules`]: debug builds, models, simulations), and by the
//! monitor, each time that it looks, everywhere.
//!
//! Nothing here allocates, touches an atomic or tells the platform of an access, unless a rule is broken: a run that is checked is
//! the same run.

use coreshard_platform::Platform;

use super::sizes::MAX_WORKERS;
use super::state::{Blocked, RESCUER, State, ThreadSlot, Worklist};
use crate::base::bits::bits;

/// Workers, by index.
struct Marks([u64; MAX_WORKERS.div_ceil(64)]);

impl Marks {
    const fn none() -> Self {
        Self([0; MAX_WORKERS.div_ceil(64)])
    }

    /// Adds a worker. False if it was there.
    fn add(&mut self, worker: usize) -> bool {
        let (word, bit) = (&mut self.0[worker / 64], 1 << (worker % 64));
        let was_there = *word & bit != 0;
        *word |= bit;
        !was_there
    }
}

impl<P: Platform> State<P> {
    /// The rule that does not hold, in words.
    pub(super) fn broken_rule(&self) -> Option<&'static str> {
        self.broken_count().or_else(|| {
            self.is_stranded()
                .then_some("where workers sleep and none runs, one is told of what comes")
        })
    }

    /// True if work may wait for ever: nobody runs or is on its way, and of those who sleep nobody is told
    /// of an item.
    ///
    /// Where nobody sleeps either, all workers are blocked. That is not looked at here: the monitor stays
    /// awake then, and starts one more as soon as there is work.
    pub(super) fn is_stranded(&self) -> bool {
        let nobody_runs = !self.stopping && self.active() == 0 && self.idle_count() > 0;
        nobody_runs
            && self.designated.is_none()
            && self.kicked.is_none()
            && match &self.worklist {
                Worklist::LockFree(_) => true,
                // Whoever brings the next item chooses somebody, under the lock.
                Worklist::Locked(list) => !list.is_empty(),
            }
    }

    fn broken_count(&self) -> Option<&'static str> {
        let cold = self.cold_unseen();
        let workers = cold.threads.len();
        // What is not there, and what counts as no worker.
        let mut absent = Marks::none();
        let mut absentees = 0;
        for worker in 0..workers {
            if matches!(cold.threads[worker], ThreadSlot::Late) || self.stands_by(worker) {
                absent.add(worker);
                absentees += 1;
            }
        }
        if !cold.free.iter().all(|worker| *worker < workers && absent.add(*worker)) {
            return Some("an index is free once, and nobody has it");
        }
        if self.alive + absentees + cold.free.len() != workers {
            return Some(
                "`alive` is the workers that have an index, without a rescuer that is not called",
            );
        }
        let mut resting = absent;
        let named = self.designated.into_iter().chain(bits(self.runner_ups));
        let mut sleepers = self.idle.iter().copied().chain(named);
        if !sleepers.all(|worker| worker < workers && resting.add(worker)) {
            return Some("who sleeps is a worker, and listed once");
        }
        let mut blocked = 0;
        for (worker, _) in
            self.blocked_as.iter().enumerate().filter(|(_, why)| **why != Blocked::No)
        {
            blocked += 1;
            if !resting.add(worker) {
                return Some("who is blocked is a worker, and does not sleep");
            }
        }
        if blocked != self.blocked {
            return Some("`blocked` is the workers that are blocked");
        }
        if self.blocked + self.idle_count() > self.alive {
            return Some("there are as many workers as sleep and are blocked, or more");
        }
        if self.kicked.is_some_and(|kicked| !self.idle.contains(&kicked)) {
            return Some("who was kicked is listed until it runs");
        }
        if cold.counted + usize::from(self.is_called(RESCUER)) != self.alive {
            return Some("the runtime counts the pool's workers, without its rescuer");
        }
        if self.spare_missed && self.starting == 0 {
            return Some("who missed a worker while one was started was seen to");
        }
        if self.stopping && self.idle_count() > 0 {
            return Some("nobody sleeps in a pool that stops");
        }
        if !self.stopping && workers > absentees && self.alive == 0 {
            return Some("a pool that was started and not stopped has a worker");
        }
        None
    }

    /// The books, for whoever looks into why a rule is broken.
    pub(super) fn books(&self) -> String {
        let Self {
            idle, designated, kicked, runner_ups, alive, blocked, blocked_as, stopping, ..
        } = self;
        let Self { starting, spare_missed, rescuer, .. } = self;
        let cold = self.cold_unseen();
        format!(
            "idle {idle:?}, designated {designated:?}, runners-up {runner_ups:#b}, kicked {kicked:?}, alive {alive}, \
             blocked {blocked}, \
             blocked as {blocked_as:?}, stopping {stopping}, starting {starting}, missed {spare_missed}, rescuer \
             {rescuer:?}, free {:?}, counted {}, threads {:?}",
            cold.free, cold.counted, cold.threads
        )
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    use coreshard_platform::Host;
    use coreshard_topology::{CpuSet, Scope, Topology, Usable};

    use super::super::sizes::Injectors;
    use super::super::{CurrentWorker, Pool};
    use crate::{Runtime, Trouble};

    /// Longer than the test needs; only a failure takes so long.
    const NEVER: Duration = Duration::from_secs(30);

    /// Takes the sleeper off the wake word, and tells nobody: what a bug of ours might do. False where there is none.
    fn strand(pool: &Pool<Host>) -> bool {
        // Not by the guard that checks.
        let mut state = pool.state.lock();
        let Some(worker) = state.designated.take() else { return false };
        let taken = pool.queue.as_ref().and_then(Injectors::recall);
        assert_eq!(taken, Some(worker), "nothing was queued");
        state.idle.push(worker);
        assert!(state.is_stranded() && state.broken_rule().is_some());
        true
    }

    #[test]
    fn a_pool_that_nobody_would_come_for_is_kicked_by_the_monitor_and_told_of() {
        let (tell, told) = mpsc::channel();
        let topology = Topology::host().unwrap();
        let usable = Usable::host(&topology).unwrap().cpus().clone();
        let one: CpuSet = usable.iter().take(1).collect();
        let builder = Runtime::<Host>::builder(topology).usable(one);
        let runtime =
            builder.on_diagnostic(move |it| tell.send(it.clone()).unwrap()).build().unwrap();
        let queue = runtime.workqueue().scope(Scope::System).build().unwrap();
        let find = || Arc::clone(CurrentWorker::<Host>::here().unwrap().pool());
        let pool = queue.submit(find).unwrap().join().unwrap();
        let since = Instant::now();
        while !strand(&pool) {
            assert!(since.elapsed() < NEVER, "the worker sleeps");
            std::thread::sleep(Duration::from_micros(100));
        }
        // As whoever leaves a pool so has, since it had work.
        pool.monitor.notice_work();
        assert_eq!(queue.submit(|| 7).unwrap().join().unwrap(), 7);
        let Ok(Trouble::Bug(bug)) = told.recv_timeout(NEVER) else { panic!("it is told of") };
        assert!(bug.rule.contains("told of what comes"), "{}", bug.rule);
        assert!(Trouble::Bug(bug).to_string().contains("idle [0]"));
    }
}

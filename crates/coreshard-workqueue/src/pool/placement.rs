//! On which CPUs a pool's workers run, according to their last claims; and how a worker returns to its pod.
//!
//! A woken worker should run beside the worker that woke it, not in its place. The kernel takes care of that if it finds an
//! idle CPU. In a virtual machine it may not: an idle virtual CPU that its host has put to sleep counts as busy. So a woken
//! thread stays on its last CPU although another thread runs there, and the two take turns while the other CPU idles. Since
//! both fall asleep on that CPU again, it happens the next time as well.
//!
//! So a worker that wakes another one for further work, and keeps running, checks whether a worker runs on the sleeper's CPU.
//! If so, it places the sleeper on a CPU without a worker of the pool. Producers lack this information. So a worker that
//! wakes up on the CPU of another, which then waits for it, has that one placed elsewhere. Affinities are narrowed only for
//! that moment: if the records here are stale, a worker is placed badly, and the kernel can move it.

use std::time::Duration;

use coreshard_platform::{Platform, Time};
use coreshard_topology::CpuId;

use crate::config::attributes::Place;
use crate::insight::diagnostic::say;
use crate::intake::MAX_INJECTORS;

#[derive(Clone, Copy, Debug, Default)]
struct Placed {
    /// The injector of its CPU, if it runs.
    now: Option<u8>,
    last: Option<u8>,
    /// It was woken there, and has not claimed yet.
    comes: bool,
}

/// CPUs are identified by their injectors; in a pod with more CPUs than injectors, several share one.
#[derive(Debug)]
pub(super) struct Placement {
    /// By worker index.
    workers: Vec<Placed>,
    /// Number of workers that run at each injector.
    running: Box<[u16; MAX_INJECTORS]>,
}

impl Placement {
    pub(super) fn new() -> Self {
        Self { workers: Vec::new(), running: Box::new([0; MAX_INJECTORS]) }
    }

    /// Records that the worker claims at this injector.
    #[inline]
    pub(super) fn runs_at(&mut self, worker: usize, injector: usize) {
        let injector = injector as u8;
        if let Some(placed) = self.workers.get_mut(worker)
            && placed.now == Some(injector)
        {
            placed.comes = false;
            return;
        }
        self.rests(worker);
        if worker >= self.workers.len() {
            self.workers.resize(worker + 1, Placed::default());
        }
        self.workers[worker] = Placed { now: Some(injector), last: Some(injector), comes: false };
        self.running[usize::from(injector)] += 1;
    }

    /// Records that a producer has woken the worker, which has not claimed yet: it runs on its last CPU, or waits for it.
    pub(super) fn mark_running(&mut self, worker: usize) {
        if let Some(last) = self.workers.get(worker).and_then(|worker| worker.last) {
            self.runs_at(worker, usize::from(last));
            self.workers[worker].comes = true;
        }
    }

    /// Records that the worker runs nowhere for now.
    pub(super) fn rests(&mut self, worker: usize) {
        if let Some(injector) = self.workers.get_mut(worker).and_then(|worker| worker.now.take()) {
            self.running[usize::from(injector)] -= 1;
        }
    }

    /// The CPUs that a worker should run (or wake up) on, if others run on its CPU. From here on it counts as running on one
    /// of them, so that two workers on one CPU do not both leave.
    pub(super) fn send_elsewhere(&mut self, worker: usize, place: &Place) -> Option<FreeCpus> {
        let free = self.elsewhere(worker)?;
        let first = free.cpus(place).next()?;
        self.runs_at(worker, place.injector_of(first));
        Some(free)
    }

    /// Another worker that is recorded at this injector, and whether it is on its way there.
    pub(super) fn other_at(&self, worker: usize, injector: usize) -> Option<(usize, bool)> {
        if self.running[injector] < 2 {
            return None;
        }
        let is_there = |at: &Placed| at.now.is_some_and(|now| usize::from(now) == injector);
        let mut others = self.workers.iter().enumerate().filter(|(other, _)| *other != worker);
        let (other, placed) = others.find(|(_, at)| is_there(at))?;
        Some((other, placed.comes))
    }

    fn elsewhere(&self, worker: usize) -> Option<FreeCpus> {
        let Placed { now, last, .. } = *self.workers.get(worker)?;
        let others = self.running[usize::from(last?)] - u16::from(now.is_some());
        let free = (0..MAX_INJECTORS).filter(|injector| self.running[*injector] == 0);
        (others > 0)
            .then(|| FreeCpus(free.fold(0, |injectors, injector| injectors | 1 << injector)))
    }
}

/// CPUs that are known to be busy, by their injectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct BusyCpus {
    /// The CPU of the calling worker, which keeps running.
    pub(super) own: usize,
    /// The CPU that its current work came from.
    pub(super) producer: Option<usize>,
}

/// Injectors whose CPUs run no worker of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreeCpus(u64);

impl FreeCpus {
    /// CPUs that a thief should wake up on: neither the caller's CPU nor the CPU that the work came from, if there is another.
    pub(super) fn beside(busy: BusyCpus, injectors: usize) -> Option<Self> {
        let BusyCpus { own, producer } = busy;
        let all = u64::MAX >> (u64::BITS as usize - injectors.min(MAX_INJECTORS));
        let others = all & !(1 << own);
        let free = others & !producer.map_or(0, |producer| 1 << producer);
        [free, others].into_iter().find(|free| *free != 0).map(Self)
    }

    /// The CPUs of these injectors.
    pub(super) fn cpus(self, place: &Place) -> impl Iterator<Item = CpuId> {
        place.home.iter().filter(move |cpu| self.0 & (1 << place.injector_of(*cpu)) != 0)
    }
}

/// How long a worker that was brought back may not leave its pod. When it sleeps after that, it may leave again: the kernel
/// moves it away from other threads that compute in its pod.
const STAY_AT_HOME: Duration = Duration::from_millis(5);

/// A worker's recent moves out of its pod.
pub(super) struct Homing {
    /// How often it was brought back since the last report.
    came_back: u64,
    /// Start of the time during which it may not leave its pod, after it was brought back.
    stays_since: Option<Time>,
}

impl Homing {
    pub(super) fn new() -> Self {
        Self { came_back: 0, stays_since: None }
    }

    /// How often the worker was brought back since the last call.
    #[inline]
    pub(super) fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.came_back)
    }

    /// Brings the worker back, if the kernel has moved it out of its pod, and confines it there for a while. The waker may
    /// keep the pod's CPUs busy, like a producer that waits for each item on a pool of one CPU. Then each wake-up would
    /// move the worker out again, at the cost of two migrations and two system calls.
    pub(super) fn return_to<P: Platform>(&mut self, place: &Place) {
        if place.home == place.roam {
            return;
        }
        let moved = if let Some(since) = self.stays_since {
            if P::now() - since < STAY_AT_HOME {
                return;
            }
            self.stays_since = None;
            P::set_affinity(&place.roam)
        } else if place.home.contains(P::current_cpu()) {
            return;
        } else {
            P::set_affinity(&place.home).map(|()| {
                self.came_back += 1;
                self.stays_since = Some(P::now());
            })
        };
        if let Err(error) = moved {
            say(|| {
                tracing::warn!(pod = %place.pod, %error, "a worker cannot be brought home, or let out");
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coreshard_topology::{CpuSet, PodId};

    use super::*;

    fn cpus(ids: impl IntoIterator<Item = u32>) -> CpuSet {
        ids.into_iter().map(CpuId).collect()
    }

    fn place() -> Place {
        Place {
            pod: PodId(0),
            cpus: cpus(4..8),
            node: None,
            home: cpus(4..8),
            roam: cpus(4..8),
            limit: 4,
            members: 0..0,
            injector_by_cpu: Arc::new([0, 0, 0, 0, 0, 1, 2, 3]),
            thread_names: "cs-".into(),
        }
    }

    fn free(placement: &Placement, worker: usize, place: &Place) -> Option<CpuSet> {
        placement.elsewhere(worker).map(|free| free.cpus(place).collect())
    }

    #[test]
    fn a_sleeper_wakes_where_it_slept_unless_somebody_runs_there() {
        let (mut placement, place) = (Placement::new(), place());
        assert_eq!(free(&placement, 0, &place), None, "it never ran");
        placement.runs_at(0, 1);
        placement.rests(0);
        assert_eq!(free(&placement, 0, &place), None, "its CPU is free");
        placement.runs_at(1, 1);
        placement.runs_at(2, 3);
        assert_eq!(free(&placement, 0, &place), Some(cpus([4, 6])));
        placement.runs_at(1, 0);
        assert_eq!(free(&placement, 0, &place), None, "the other has moved away");
    }

    #[test]
    fn a_thief_wakes_neither_at_its_caller_nor_at_who_waits_for_the_work() {
        let beside = |own, producer, injectors| {
            FreeCpus::beside(BusyCpus { own, producer }, injectors).map(|free| free.0)
        };
        assert_eq!(beside(0, Some(1), 4), Some(0b1100));
        assert_eq!(beside(0, None, 4), Some(0b1110));
        assert_eq!(beside(0, Some(1), 2), Some(0b10), "the waiter sleeps, the caller goes on");
        assert_eq!(beside(0, Some(0), 1), None, "there is one CPU");
    }

    #[test]
    fn two_who_meet_do_not_both_leave() {
        let (mut placement, place) = (Placement::new(), place());
        placement.runs_at(0, 2);
        placement.runs_at(1, 2);
        assert_eq!(placement.other_at(0, 2), Some((1, false)));
        assert_eq!(placement.other_at(1, 2), Some((0, false)));
        let sent = placement.send_elsewhere(0, &place).unwrap();
        assert_eq!(sent.cpus(&place).collect::<CpuSet>(), cpus([4, 5, 7]));
        assert_eq!(placement.other_at(1, 2), None);
        assert_eq!(placement.send_elsewhere(1, &place), None);
        placement.runs_at(1, 0);
        let sent = placement.send_elsewhere(1, &place).unwrap();
        assert_eq!(sent.cpus(&place).collect::<CpuSet>(), cpus([5, 6, 7]));
    }

    #[test]
    fn where_all_cpus_are_taken_the_kernel_decides() {
        let (mut placement, place) = (Placement::new(), place());
        placement.runs_at(9, 2);
        placement.rests(9);
        (0..4).for_each(|worker| placement.runs_at(worker, worker));
        assert_eq!(placement.send_elsewhere(9, &place), None);
        placement.rests(3);
        placement.rests(3);
        assert_eq!(free(&placement, 9, &place), Some(cpus([7])));
    }

    #[test]
    fn who_was_woken_is_expected_where_it_slept_until_it_claims() {
        let mut placement = Placement::new();
        placement.mark_running(1);
        assert_eq!(placement.other_at(0, 2), None, "it never ran");
        placement.runs_at(1, 2);
        placement.rests(1);
        placement.runs_at(0, 2);
        assert_eq!(placement.other_at(0, 2), None);
        placement.mark_running(1);
        assert_eq!(placement.other_at(0, 2), Some((1, true)));
        placement.runs_at(1, 2);
        assert_eq!(placement.other_at(0, 2), Some((1, false)));
    }
}

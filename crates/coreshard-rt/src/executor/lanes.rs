//! The threads that run tasks: one for each CPU and priority in use.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use coreshard_platform::{AtomicInt, Policy, RealTime, user};

use super::Shared;
use super::balance::LaneGoes;
use super::cpu::{Lane, Order, Place};
use crate::error::RtError;
use crate::level::Priority;

impl<P: RealTime> Shared<P> {
    /// Sees to it that every CPU has a lane of `priority`.
    pub(super) fn prepare(self: &Arc<Self>, priority: Priority) -> Result<(), RtError> {
        let level = priority.level().index();
        let (word, bit) = (&self.prepared[level / 64], 1 << (level % 64));
        // Acquire pairs with the Release below: the lanes are seen.
        if word.load(Acquire) & bit != 0 {
            return Ok(());
        }
        let _preparing = self.preparing.lock();
        let lanes = self.options.round_robin.map_or(1, NonZeroUsize::get);
        for place in 0..self.cpus.len() {
            while self.cpus[place].lock().lanes[level].len() < lanes {
                let lane = self.new_lane(place, priority)?;
                self.cpus[place].lock().lanes[level].push(Place::new(lane));
            }
        }
        word.fetch_or(bit, Release);
        Ok(())
    }

    /// Starts the thread of a lane; the caller puts it into its place.
    pub(super) fn new_lane(
        self: &Arc<Self>,
        place: usize,
        priority: Priority,
    ) -> Result<Arc<Lane<P>>, RtError> {
        let lane = Lane::new();
        let (theirs, shared) = (Arc::clone(&lane), Arc::clone(self));
        let name = format!("rt-{}-{priority}", self.cpus[place].id);
        let body = move || shared.work(place, priority, &theirs);
        self.start_thread(name, Some(place), self.policy_of(priority), Box::new(body))?;
        Ok(lane)
    }

    /// How a thread of a priority is scheduled, as far as that was granted.
    pub(super) fn policy_of(&self, priority: Priority) -> Policy {
        match (self.has_priorities, self.options.round_robin) {
            (false, _) => Policy::Normal,
            (true, None) => Policy::Fifo(priority.get()),
            (true, Some(_)) => Policy::RoundRobin(priority.get()),
        }
    }

    /// How a thread is scheduled that is to come before all tasks, as far as that is granted.
    pub(super) fn highest_policy(&self) -> Policy {
        let granted = Priority::new(P::real_time_limits().priority.min(Priority::MAX.get()));
        // The priorities were tried, whatever the limits say.
        self.policy_of(granted.map_or(self.options.highest, |it| it.max(self.options.highest)))
    }

    /// The life of a lane.
    fn work(&self, place: usize, priority: Priority, lane: &Arc<Lane<P>>) {
        let level = priority.level();
        lane.begins();
        loop {
            lane.parker.park();
            loop {
                let order = std::mem::replace(&mut *lane.order.lock(), Order::Rest);
                let task = match order {
                    Order::Rest => break,
                    Order::End => return,
                    Order::Run(task) => task,
                };
                let owed = self.tally.owed();
                if task.budget.is_some() {
                    lane.begins_task();
                }
                // What a task throws is its handle's; this is what came after: a destructor's.
                drop(user::call(task.run));
                let goes = self.leave(place, level, Some(lane));
                drop(owed);
                match goes {
                    LaneGoes::On => {}
                    LaneGoes::ToSleep => break,
                    LaneGoes::Home => return,
                }
            }
        }
    }
}

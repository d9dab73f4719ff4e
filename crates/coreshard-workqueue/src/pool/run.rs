//! A worker's thread: its hooks, its loop, and an item's run.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use coreshard_platform::{AtomicInt, LocalKey, Platform, Time, stack_pointer, user};
use coreshard_topology::PodId;

use super::accounts::WeighedVisits;
use super::blocking::blocking;
use super::context::{Context, Forks, OwnPool, context_here};
use super::frame::Frame;
use super::jobs::fifo;
use super::link::LinkHead;
use super::pool::Pool;
use super::worker::{Batch, TaggedItem, Worker};
use crate::base::item::Item;
use crate::insight::trouble::say;
use crate::spec::attributes::{Hook, Place};

/// A hook that panics costs its own work, not the worker.
fn run_hook(hook: Option<&Hook>, pod: PodId) {
    if let Some(hook) = hook
        && let Err(thrown) = hook.call(|hook| hook(pod))
    {
        let panic = crate::base::error::message_of(thrown.payload());
        say(|| tracing::error!(%pod, panic, "a hook panicked"));
    }
}

/// The thread of the worker with this index, which was reserved. A program may give a team the thread of another worker,
/// whose pool goes on without that worker meanwhile.
pub(super) fn start<P: Platform>(pool: &Arc<Pool<P>>, index: usize) {
    match context_here::<P>() {
        None => start_here(pool, index),
        Some(_) => blocking::<P, _>(|| start_here(pool, index)),
    }
}

#[inline(never)]
fn start_here<P: Platform>(pool: &Arc<Pool<P>>, index: usize) {
    let inside = Frame::of_worker();
    let context = Context {
        pool: Arc::clone(pool),
        own_pool: OwnPool::new(pool),
        index,
        slot: NonNull::from(pool.slot(index)),
        producer: Cell::new(None),
        frame: Cell::new(&raw const inside),
        base: stack_pointer(),
        forks: Forks::new(),
        in_order: fifo(),
    };
    let outer = P::local(LocalKey::Worker);
    P::set_local(LocalKey::Worker, (&raw const context).cast_mut().cast());
    Worker::new(&context, &inside).run();
    // What a user still runs on this thread, such as the destructors of thread-local values, does not find this
    // worker. Only then may another one have the index.
    P::set_local(LocalKey::Worker, outer);
    let mut state = pool.lock();
    state.retire_worker(index);
    if state.stopping {
        // Under the lock, for once: nobody joins this thread from here on, so it does nothing after.
        pool.event.notify();
    }
}

impl<P: Platform> Worker<'_, P> {
    fn run(mut self) {
        let pool = self.pool;
        self.slot.thread.store(P::this_thread().0, Release);
        self.visits = pool.open_account(self.index).then(|| WeighedVisits::of_worker(self.index));
        let Place { home, roam, pod, .. } = &pool.place;
        if home != roam
            && let Err(error) = P::set_affinity(roam)
        {
            // It stays at home: stricter than asked, and said.
            say(|| tracing::warn!(%pod, %error, "a worker may not leave its pod"));
        }
        run_hook(pool.attributes.hooks.on_start.as_ref(), *pod);
        if let Some(team) = pool.team() {
            team.run_hook(team.on_start.as_ref(), self.current().index());
        }
        let mut works = !self.is_rescuer() || self.stand_by();
        while works {
            while let Some(item) = self.next_item() {
                self.execute(item);
            }
            self.settle();
            works = self.sleep() || self.stand_by();
        }
        // The hook is a user's, and may fork: the slot is still this worker's.
        if let Some(team) = pool.team() {
            team.run_hook(team.on_exit.as_ref(), self.current().index());
        }
        run_hook(pool.attributes.hooks.on_stop.as_ref(), *pod);
        self.stop_forking();
        pool.close_account(self.index);
    }

    #[inline]
    #[allow(unsafe_code)]
    fn execute(&mut self, (mut item, tag): TaggedItem) {
        if self.tally.tag != Some(tag) {
            self.count_run();
            // Only this worker writes it.
            self.slot.link.store(u32::from(tag.0) + 1, Relaxed);
            let link = self.pool.links.link(tag);
            self.tally = Batch {
                tag: Some(tag),
                link: link.as_ptr(),
                items: 0,
                weighed_since: self.weigh_visit(),
            };
            // SAFETY: a link lives until its items are counted, and this one is not yet.
            self.context.forks.owner.set_serial(unsafe { LinkHead::is_serial(link) });
            // SAFETY: as above.
            if unsafe { LinkHead::is_stopped(link) } && !item.is_awaited() {
                return self.set_aside(&mut item);
            }
        }
        self.inside.set_link(self.tally.link);
        self.slot.begin(item.kind());
        // SAFETY: its one use.
        let outcome = user::call(|| unsafe { item.run_in_place() });
        if P::process_generation() != self.process_generation {
            self.end_in_fork();
        }
        let Some(link) = NonNull::new(self.tally.link) else { unreachable!("set above") };
        if let Err(thrown) = outcome {
            // SAFETY: a link lives until its items are counted, and this one is not yet.
            drop(user::call(|| unsafe { LinkHead::on_panic(link, thrown) }));
        }
        self.item_is_over(link);
    }

    #[inline]
    #[allow(unsafe_code)]
    fn item_is_over(&mut self, link: NonNull<LinkHead<P>>) {
        self.inside.set_link(ptr::null());
        self.tally.items += 1;
        // SAFETY: a link lives until its items are counted, and this one is not yet.
        if unsafe { LinkHead::item_is_over(link) } {
            self.look_anew();
        }
    }

    /// The next item, too, is looked at as the first of its link.
    #[cold]
    #[inline(never)]
    fn look_anew(&mut self) {
        self.count_run();
    }

    /// The item's queue runs nothing more. What the item holds is a user's, and may panic as it is dropped.
    #[cold]
    #[inline(never)]
    #[allow(unsafe_code)]
    fn set_aside(&mut self, item: &mut Item) {
        let Some(link) = NonNull::new(self.tally.link) else { unreachable!("set by the caller") };
        self.inside.set_link(link.as_ptr());
        self.slot.begin(item.kind());
        // SAFETY: its one use.
        let outcome = user::call(|| unsafe { item.set_aside() });
        drop(user::call(|| match outcome {
            Ok(None) => {}
            // SAFETY: a link lives until its items are counted, which this one is not yet.
            Ok(Some(returned)) => unsafe { LinkHead::hand_back(link, returned) },
            // SAFETY: as above.
            Err(thrown) => unsafe { LinkHead::on_panic(link, thrown) },
        }));
        self.item_is_over(link);
    }

    /// An item has forked this process, and returned in it: what waits here is run there.
    #[cold]
    fn end_in_fork(&self) -> ! {
        panic!(
            "a work item ({}) has returned in a process that it forked, where its queue's workers are not: end that process inside the item, by exec or _exit",
            self.slot.function()
        );
    }

    /// Tells the queue and the intake what was done, before this worker rests.
    #[inline]
    fn settle(&mut self) {
        self.settle_items();
        self.stop_forking();
    }

    #[inline]
    pub(super) fn settle_items(&mut self) {
        self.count_run();
        self.release_taken();
    }

    /// Tells the queue how many of its items were run. The link may be gone right after.
    #[inline]
    #[allow(unsafe_code)]
    fn count_run(&mut self) {
        let items = std::mem::take(&mut self.tally.items);
        if let Some(link) = NonNull::new(self.tally.link).filter(|_| items > 0) {
            if let (Some(since), Some(tag)) = (self.tally.weighed_since, self.tally.tag) {
                self.pool.weigh_visit(tag, P::now().ns_since(since));
            }
            self.pool.ran.fetch_add(items, Relaxed);
            if self.is_rescuer() {
                // SAFETY: as below.
                unsafe { LinkHead::rescued(link, items) };
            }
            // SAFETY: as in `execute`: these items are not yet told.
            if unsafe { LinkHead::finish(link, items) } {
                self.pool.event.notify();
            }
        }
        self.tally = Batch::none();
        // What this worker steals is of another item.
        self.context.forks.owner.set_serial(false);
    }

    /// When a visit to a link begins that is to be weighed: the first one, and then one of so many.
    #[inline]
    fn weigh_visit(&mut self) -> Option<Time> {
        let visits = self.visits.as_mut()?;
        visits.is_weighed().then(P::now)
    }
}

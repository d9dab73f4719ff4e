//! How items come into a pool.

use std::sync::atomic::Ordering::Relaxed;

use coreshard_platform::{AtomicInt, Platform};

use super::links::LinkTag;
use super::pool::Pool;
use super::sizes::Injectors;
use super::state::Worklist;
use crate::base::item::{Item, ItemParts};
use crate::intake;

impl<P: Platform> Pool<P> {
    /// Brings an accepted item of the pool link with this tag in, by the injector of the caller's CPU, and wakes a worker if one should be.
    #[inline(always)]
    pub(crate) fn push(&self, injector: usize, item: Item, link: LinkTag) {
        match &self.queue {
            Some(queue) => {
                if let Some(worker) = queue.push(injector, item, link.0) {
                    self.wake(worker);
                }
            }
            None => self.push_locked(item.into_parts(), link),
        }
    }

    /// As [`Self::push`], for callers to whom a call more or less is nothing: so that those to whom
    /// it is something have it inline.
    #[inline(never)]
    pub(crate) fn push_indirectly(&self, injector: usize, item: Item, link: LinkTag) {
        self.push(injector, item, link);
    }

    /// Injectors of the intake; 1 on the locked rung.
    pub(crate) fn injectors(&self) -> usize {
        self.queue.as_ref().map_or(1, Injectors::len)
    }

    /// A counter an injector for a pool link, at zero, on the lines that producers fetch anyway; `None`
    /// where all are taken, or the rung has no such line.
    pub(crate) fn take_counters(&self) -> Option<usize> {
        let queue = self.queue.as_ref()?;
        let mut state = self.lock();
        let at = state.cold().free_counters.trailing_zeros() as usize;
        if at >= intake::TAIL_COUNTERS {
            return None;
        }
        state.cold_mut().free_counters &= !(1 << at);
        (0..queue.len()).for_each(|injector| {
            queue.counter(injector, at).into_iter().for_each(|counter| counter.store(0, Relaxed))
        });
        Some(at)
    }

    /// Takes back what [`Self::take_counters`] gave.
    pub(crate) fn return_counters(&self, at: usize) {
        self.lock().cold_mut().free_counters |= 1 << at;
    }

    /// The counter at an injector that [`Self::take_counters`] gave; `None` for any other.
    #[inline]
    pub(crate) fn counter(&self, injector: usize, at: usize) -> Option<&P::AtomicU64> {
        self.queue.as_ref()?.counter(injector, at)
    }

    /// In parts, which travel in registers: else the item would lie on the stack on the other rung, too.
    #[inline(never)]
    fn push_locked(&self, parts: ItemParts, link: LinkTag) {
        let item = Item::from_parts(parts);
        let mut state = self.lock();
        state.queued += 1;
        match &mut state.worklist {
            Worklist::Locked(list) => {
                list.push_back((item, link));
                P::touch_write(&raw const list[list.len() - 1]);
            }
            Worklist::LockFree(_) => unreachable!("the locked rung has no lock-free queue"),
        }
        let kick = state.choose_kick(self);
        self.unlock_and_kick(state, kick);
    }
}

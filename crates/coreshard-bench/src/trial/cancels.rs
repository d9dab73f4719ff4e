//! Items that are cancelled, abandoned and detached: each runs once, or is returned once, or is dropped once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use coreshard_platform::{Platform, user};
use coreshard_workqueue::JoinHandle;

use super::record::{Owned, Record};
use super::stage::{Stage, discard, us};

const ITEMS: usize = 8;

/// The fate of an item's closure: it was called, or dropped without a call.
struct Closure {
    called: u32,
    fate: Arc<AtomicU32>,
}

const CALLED: u32 = 1;
const DROPPED: u32 = 1 << 8;

impl Drop for Closure {
    fn drop(&mut self) {
        self.fate.fetch_add(if self.called > 0 { CALLED } else { DROPPED }, SeqCst);
    }
}

fn item<F: FnOnce()>(
    record: &Arc<Record>,
    fate: &Arc<AtomicU32>,
    work: F,
) -> impl FnOnce() + use<F> {
    let (record, owned) = (Arc::clone(record), Owned(Arc::clone(record)));
    let mut closure = Closure { called: 0, fate: Arc::clone(fate) };
    move || {
        let _owned = owned;
        closure.called += 1;
        record.call();
        work();
        drop(closure);
    }
}

pub(super) fn cancels<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    for round in stage.rounds() {
        let queue = stage.queue(&runtime, |builder| match round % 3 {
            0 => builder,
            1 => builder.capacity(3),
            _ => builder.max_active(2),
        })?;
        let fates: Vec<_> = (0..ITEMS).map(|_| Arc::new(AtomicU32::new(0))).collect();
        let mut kept = Vec::new();
        for (number, fate) in fates.iter().enumerate() {
            let work = item(stage.record(), fate, move || P::sleep(us(number as u64 % 3 * 40)));
            // A refused item is returned, and dropped.
            let handle = user::call(|| queue.submit(work).map_err(discard).ok());
            let Ok(Some(handle)) = handle else { continue };
            match number % 4 {
                0 => give_up(handle),
                1 => {
                    P::sleep(us(30 * (1 + round as u64 % 4)));
                    give_up(handle);
                }
                2 => drop(user::call(|| match handle.join_timeout(us(50)) {
                    Ok(ended) => discard(ended),
                    Err(late) => give_up(late),
                })),
                _ => kept.push(handle),
            }
        }
        if round % 2 == 0 {
            P::sleep(us(100));
        }
        let backlog = user::call(|| queue.shutdown_now(us(100)));
        discard(backlog);
        kept.into_iter().for_each(|handle| discard(user::call(|| discard(handle.join()))));
        discard(queue);
        let settled = |fate: &Arc<AtomicU32>| matches!(fate.load(SeqCst), CALLED | DROPPED);
        stage.until_done("an item's end", || {
            if fates.iter().all(settled) { Ok(()) } else { Err("an item has not ended") }
        })?;
    }
    Ok(())
}

/// Takes the item back, or leaves it to the thread that has begun it.
fn give_up<P: Platform>(handle: JoinHandle<(), P>) {
    drop(user::call(|| match handle.cancel() {
        Ok(back) => discard(back),
        Err(begun) => discard(begun),
    }));
}

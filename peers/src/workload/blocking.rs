//! Blocking: items that sleep for 50 ms, many more than CPUs. With `told=1` they are submitted by each
//! peer's call for such work, with `told=0` by its plain call, as if the caller did not know.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::word::{SLEEPY, Word};
use crate::cell::{Cell, Measured};
use crate::measure::{Samples, Usage, now_ns, threads};
use crate::peer::Spawn;

const SLEEP: Duration = Duration::from_millis(50);

struct Shared {
    ended_ns: Box<[AtomicU64]>,
    left: AtomicU64,
    over: Word,
}

pub(super) fn run<P: Spawn>(cell: &Cell) -> Result<Measured, String> {
    let told = cell.param("told")? != 0;
    let before_threads = threads();
    let peer = super::start::<P>(cell)?;
    let shared = Arc::new(Shared {
        ended_ns: (0..cell.items).map(|_| AtomicU64::new(0)).collect(),
        left: AtomicU64::new(cell.items),
        over: Word::default(),
    });
    let (mut call, mut sent) = (Samples::default(), Samples::default());
    let before = Usage::now();
    let started_ns = now_ns();
    for at in 0..cell.items as usize {
        let shared = Arc::clone(&shared);
        let work = move || {
            thread::sleep(SLEEP);
            shared.ended_ns[at].store(now_ns(), Ordering::Relaxed);
            // AcqRel: the waiting thread sees all ends.
            if shared.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                shared.over.give();
            }
        };
        let before_ns = now_ns();
        if told {
            peer.spawn_blocking(work);
        } else {
            peer.spawn(work);
        }
        call.push(now_ns() - before_ns);
        sent.push(before_ns);
    }
    shared.over.take(SLEEPY);
    let elapsed_ns = now_ns() - started_ns;
    let used = Usage::now().since(before);
    let grown = threads().zip(before_threads).map(|(now, before)| (now - before) as f64);
    let mut measured = Measured::new(cell.items, elapsed_ns, used)
        .call(call)
        .end_to_end(sent.until(&shared.ended_ns));
    if let Some(grown) = grown {
        // No peer retires threads within the time of a run.
        measured = measured.figure("threads", grown);
    }
    Ok(measured)
}

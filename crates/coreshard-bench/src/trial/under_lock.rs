//! Parallel loops under a lock, inside parallel loops: a waiting worker may run only subtasks of the loop
//! that it waits for, or it could wait for its own lock.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use coreshard_platform::{Platform, SleepingLock, user};
use coreshard_topology::Scope;
use coreshard_workqueue::{Workqueue, join};

use super::stage::{Stage, discard};

/// Subtasks of the outer loop, and of the inner one.
const OUTER: usize = 6;
const INNER: usize = 6;

/// How subtasks are created.
#[derive(Clone, Copy)]
enum PartsAs {
    Join,
    Loop,
    Scope,
}

impl PartsAs {
    const ALL: [Self; 3] = [Self::Join, Self::Loop, Self::Scope];
}

/// Calls `body` with each of the numbers, in parallel. If items cannot be queued, with fewer of them.
fn spread<P: Platform>(
    way: PartsAs,
    queue: &Workqueue<P>,
    numbers: std::ops::Range<usize>,
    body: &(impl Fn(usize) + Sync),
) {
    match way {
        PartsAs::Loop => {
            let each = |numbers: std::ops::Range<usize>| numbers.for_each(body);
            let _ = queue.for_each_range(numbers, each);
        }
        PartsAs::Scope => queue.scope(|scope| {
            for number in numbers {
                let _ = scope.queue(move || body(number));
            }
        }),
        PartsAs::Join if numbers.len() < 2 => numbers.for_each(body),
        PartsAs::Join => {
            let middle = numbers.start + numbers.len() / 2;
            let (one, other) = (numbers.start..middle, middle..numbers.end);
            join::<P, _, _>(|| spread(way, queue, one, body), || spread(way, queue, other, body));
        }
    }
}

pub(super) fn under_lock<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    let queue = stage.queue(&runtime, |builder| builder.scope(Scope::Cache))?;
    for round in stage.rounds() {
        let (outer, inner) = (PartsAs::ALL[round % 3], PartsAs::ALL[round / 3 % 3]);
        let lock = SleepingLock::<P, usize>::new(0);
        let parts = AtomicU32::new(0);
        let all = || {
            spread(outer, &queue, 0..OUTER, &|_| {
                let mut done = lock.lock();
                spread(inner, &queue, 0..INNER, &|_| {
                    parts.fetch_add(1, SeqCst);
                    (0..20).for_each(|_| P::spin_hint());
                    stage.record().call();
                });
                *done += 1;
            });
        };
        let done = user::call(|| queue.install(all).is_ok());
        let whole = matches!(done, Ok(true));
        discard(done);
        let (done, parts) = (*lock.lock(), parts.load(SeqCst) as usize);
        if whole && (done, parts) != (OUTER, OUTER * INNER) {
            return Err(format!(
                "{done} of {OUTER} outer subtasks are done, with {parts} inner ones"
            ));
        }
    }
    Ok(())
}

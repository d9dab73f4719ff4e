//! Teams: parallel loops under a lock, scopes, broadcasts, detached work, and teams that end meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use coreshard_platform::{Platform, SleepingLock, user};
use coreshard_topology::Scope;
use coreshard_workqueue::{Team, join};

use super::stage::{Stage, discard};

/// Subtasks of the outer loop, and of the inner one.
const OUTER: usize = 5;
const INNER: usize = 4;

/// Calls `body` with each of the numbers, in parallel.
fn spread<P: Platform>(numbers: std::ops::Range<usize>, body: &(impl Fn(usize) + Sync)) {
    if numbers.len() < 2 {
        return numbers.for_each(body);
    }
    let middle = numbers.start + numbers.len() / 2;
    let (one, other) = (numbers.start..middle, middle..numbers.end);
    join::<P, _, _>(|| spread::<P>(one, body), || spread::<P>(other, body));
}

fn add_one(count: &AtomicU32) {
    count.fetch_add(1, SeqCst);
}

pub(super) fn teams<P: Platform>(stage: &Stage<'_, P>) -> Result<(), String> {
    let runtime = stage.runtime(4, |builder| builder)?;
    for round in stage.rounds() {
        // Also more members than CPUs; in one pool, and in several.
        let members = [2, 4, 6, 1][round % 4];
        let scope = if round % 2 == 0 { Scope::System } else { Scope::Cache };
        let (wake, intake) = stage.variants();
        let team = stage.until_done("a team", || {
            let builder = runtime.team("trial").members(members).scope(scope);
            builder.wake(wake).intake(intake).build()
        })?;
        let outcome = user::call(|| in_team(stage, &team, round));
        drop(team);
        match outcome {
            Ok(outcome) => {
                let (ran, wanted) = outcome?;
                stage.wait_until("the remaining work of a team", || ran.load(SeqCst) == wanted)?;
            }
            Err(thrown) => discard(Err::<(), _>(thrown)),
        }
    }
    Ok(())
}

/// Uses the team, and leaves work in it. Returns how much of it has run, and how much should run.
fn in_team<P: Platform>(
    stage: &Stage<'_, P>,
    team: &Team<P>,
    round: usize,
) -> Result<(Arc<AtomicU32>, u32), String> {
    let (lock, parts) = (SleepingLock::<P, usize>::new(0), AtomicU32::new(0));
    let inner = |_| {
        parts.fetch_add(1, SeqCst);
        (0..20).for_each(|_| P::spin_hint());
        stage.record().call();
    };
    let outer = |_| {
        let mut done = lock.lock();
        spread::<P>(0..INNER, &inner);
        *done += 1;
    };
    team.install(|| match round % 3 {
        0 => spread::<P>(0..OUTER, &outer),
        1 => team.scope(|scope| (0..OUTER).for_each(|at| scope.spawn(move |_| outer(at)))),
        _ => team.scope(|scope| (0..OUTER).for_each(|at| scope.spawn_fifo(move |_| outer(at)))),
    });
    let (done, parts) = (*lock.lock(), parts.load(SeqCst) as usize);
    if (done, parts) != (OUTER, OUTER * INNER) {
        return Err(format!("{done} of {OUTER} outer subtasks are done, with {parts} inner ones"));
    }
    let indices = team.broadcast(|index| (index, team.index()));
    if indices.iter().enumerate().any(|(at, found)| *found != (at, Some(at))) {
        return Err(format!("a broadcast reached {indices:?}"));
    }
    // The team ends while some of this work waits, and some has not been queued.
    let ran = Arc::new(AtomicU32::new(0));
    let wanted = 4 + team.members() as u32;
    for _ in 0..2 {
        let ran = Arc::clone(&ran);
        team.spawn(move || {
            add_one(&ran);
            let again = Arc::clone(&ran);
            let here = Team::<P>::here();
            if let Some(team) = here {
                team.spawn(move || add_one(&again));
            }
        });
    }
    let told = Arc::clone(&ran);
    team.spawn_broadcast(move |_| add_one(&told));
    Ok((ran, wanted))
}

//! Who waits for what a queue's workers are to do. They may be waiting for a team, and a member of that be the one who waits: it
//! does its mail meanwhile, and as time goes by whatever the team has, as in any wait inside of a team.

use coreshard_platform::{Platform, Time};

use super::blocking::blocking;
use super::forks::CurrentWorker;
use super::team::{WaitKind, patience};
use crate::base::latch::Latch;

/// This thread, where it is a team's member.
fn member_here<P: Platform>() -> Option<CurrentWorker<'static, P>> {
    CurrentWorker::<P>::here().filter(|worker| worker.pool().is_team())
}

/// Waits until `done` is open, which no other thread waits for. False in a process that was forked since it was made: there it
/// may never open.
pub(crate) fn wait_for_workers<P: Platform>(done: &Latch<P>) -> bool {
    match member_here::<P>() {
        Some(member) => done.is_open() || member.wait_in_team(done, WaitKind::OF_PART),
        None => blocking::<P, _>(|| done.wait()),
    }
}

/// As [`wait_for_workers`], until `deadline` and for something that others wait for, too: `wait` waits until a time, or for ever, and
/// says whether it is there. False if it is not.
pub(crate) fn wait_in_turns<P: Platform>(
    deadline: Option<Time>,
    mut wait: impl FnMut(Option<Time>) -> bool,
) -> bool {
    let Some(member) = member_here::<P>() else { return blocking::<P, _>(|| wait(deadline)) };
    let mut waits = 0;
    loop {
        let turn_ends = P::now() + patience(waits);
        let until = deadline.map_or(turn_ends, |deadline| deadline.min(turn_ends));
        if blocking::<P, _>(|| wait(Some(until))) {
            return true;
        }
        if deadline.is_some_and(|deadline| P::now() >= deadline) {
            return false;
        }
        waits = if member.run_mail() || member.run_unawaited() { 0 } else { waits + 1 };
    }
}

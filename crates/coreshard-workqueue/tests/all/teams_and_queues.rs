//! A member of a team waits for a queue whose item needs the team: the member serves its team meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use coreshard_platform::{Host, affinity};
use coreshard_topology::{Scope, Topology};
use coreshard_workqueue::{Builder, Runtime, Team, Work, Workqueue};
use testing::{NEVER, within};

/// A wait of a member.
type Wait = fn(&Workqueue<Host>, &Team<Host>);

fn ask(team: &Team<Host>) {
    assert_eq!(team.install(|| 7), 7);
}

const WAITS: [(&str, Wait); 9] = [
    ("install", |queue, team| queue.install(|| ask(team)).unwrap()),
    ("a broadcast from inside", |queue, team| {
        assert_eq!(queue.install(|| team.broadcast(|_| 1)).unwrap().len(), team.members());
    }),
    ("scope", |queue, team| queue.scope(|scope| scope.queue(|| ask(team)).unwrap())),
    ("join", |queue, team| {
        let team = team.clone();
        queue.submit(move || ask(&team)).unwrap().join().unwrap();
    }),
    ("join for a time", |queue, team| {
        let team = team.clone();
        queue.submit(move || ask(&team)).unwrap().join_timeout(NEVER).unwrap().unwrap();
    }),
    ("flush", |queue, team| {
        let team = team.clone();
        queue.queue(move || ask(&team)).unwrap();
        queue.flush().unwrap();
    }),
    ("flush a reusable item", |queue, team| {
        let team = team.clone();
        let work = Work::new(move |_| ask(&team));
        work.queue(queue).unwrap();
        work.flush().unwrap();
    }),
    ("disable a reusable item", |queue, team| {
        let team = team.clone();
        let work = Work::new(move |_| ask(&team));
        work.queue(queue).unwrap();
        testing::wait_until("it runs", || work.is_running() || !work.is_pending());
        work.disable_and_wait().unwrap();
    }),
    ("a loop", |queue, team| queue.for_each_range(0..3, |_| ask(team)).unwrap()),
];

fn runtime() -> Runtime<Host> {
    let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
    Runtime::builder(topology).laid_over(affinity().unwrap()).build().unwrap()
}

fn queue(runtime: &Runtime<Host>) -> Builder<'_, Host> {
    runtime.workqueue().scope(Scope::Cache)
}

#[test]
fn who_waits_for_a_queue_serves_the_team() {
    for members in [1, 2, 4] {
        for (name, wait) in WAITS {
            within(NEVER, move || {
                let runtime = runtime();
                let team = runtime.team("t").members(members).build().unwrap();
                let queue = queue(&runtime).build().unwrap();
                team.install(|| wait(&queue, &team));
                // All members wait at once.
                let waited = team.broadcast(|_| wait(&queue, &team));
                assert_eq!(waited.len(), members, "{name}");
            });
        }
    }
}

#[test]
fn who_waits_for_room_serves_the_team() {
    within(NEVER, || {
        let runtime = runtime();
        let team = runtime.team("t").members(1).build().unwrap();
        let queue = queue(&runtime).capacity(1).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (on, counted) = (team.clone(), Arc::clone(&ran));
        team.install(|| {
            // The first item needs the member, which waits for that item before it can queue the next.
            for _ in 0..3 {
                let (on, counted) = (on.clone(), Arc::clone(&counted));
                let item = move || {
                    ask(&on);
                    counted.fetch_add(1, SeqCst);
                };
                queue.queue(item).unwrap();
            }
            queue.flush_timeout(NEVER).unwrap();
        });
        assert_eq!(ran.load(SeqCst), 3);
    });
}

/// A wait with a timeout ends in time.
#[test]
fn a_member_waits_for_no_longer_than_it_says() {
    within(NEVER, || {
        let runtime = runtime();
        let team = runtime.team("t").members(1).build().unwrap();
        let queue = queue(&runtime).build().unwrap();
        let (open, opened) = std::sync::mpsc::channel::<()>();
        team.install(|| {
            let handle = queue.submit(move || opened.recv()).unwrap();
            let handle = handle.join_timeout(Duration::from_millis(30)).unwrap_err();
            assert!(queue.flush_timeout(Duration::from_millis(30)).is_err());
            drop(open);
            handle.join().unwrap().unwrap_err();
        });
    });
}

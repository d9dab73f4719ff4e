//! Models of a pool's park, wake and cull. A lost wake-up is a deadlock, which loom reports. A worker's idle time is modelled
//! as expired at once, so every sleep may end in a cull.

use std::sync::Arc;

use coreshard_platform::Parker;
use coreshard_topology::{CpuId, CpuSet, PodId, Scope};

use super::{
    JobBody, ListedJob, MAX_WORKERS, Monitor, Pool, PoolSettings, blocking, call_member, inject,
    mail,
};
use crate::base::event::Event;
use crate::base::variants::Intake;
use crate::base::variants::Wake;
use crate::config::attributes::{Attributes, Hooks, Place, Priority};
use crate::config::reactor::{Reactor, SharedReactor};
use crate::config::team::{OfTeam, TeamSpec};
use crate::insight::diagnostic::Watchdog;
use crate::queue::PoolLink;
use coreshard_platform::Loom;

fn pool(intake: Intake, wake: Wake, limit: usize) -> Arc<Pool<Loom>> {
    Loom::start_at_most(usize::MAX);
    pool_of(intake, wake, limit, MAX_WORKERS, None, Hooks::default())
}

fn pool_of(
    intake: Intake,
    wake: Wake,
    limit: usize,
    most_workers: usize,
    rescuer: Option<u64>,
    hooks: Hooks,
) -> Arc<Pool<Loom>> {
    let settings = PoolSettings { most_workers, ..PoolSettings::for_models() };
    pool_or_team(intake, wake, limit, settings, rescuer, hooks, None)
}

/// A pool whose workers suppress wake-ups from the start.
fn trusting_pool(limit: usize) -> Arc<Pool<Loom>> {
    Loom::start_at_most(usize::MAX);
    let settings = PoolSettings { trusts_at_once: true, ..PoolSettings::for_models() };
    let (intake, wake) = (Intake::LockFree, Wake::AfterUnlock);
    pool_or_team(intake, wake, limit, settings, None, Hooks::default(), None)
}

fn pool_or_team(
    intake: Intake,
    wake: Wake,
    limit: usize,
    settings: PoolSettings,
    rescuer: Option<u64>,
    hooks: Hooks,
    team: Option<OfTeam>,
) -> Arc<Pool<Loom>> {
    let members = team.as_ref().map_or(0, |team| team.0.members);
    let cpus: CpuSet = [CpuId(0)].into_iter().collect();
    let attributes = Attributes {
        scope: Scope::System,
        shard_cores: 8,
        mask: cpus.clone(),
        strict: true,
        nice: None,
        priority: Priority::Normal,
        wake,
        intake,
        stack_bytes: None,
        rescuer,
        hooks,
        team,
    };
    let place = Place {
        pod: PodId(0),
        cpus: cpus.clone(),
        node: None,
        home: cpus.clone(),
        roam: cpus,
        limit,
        members: 0..members,
        injector_by_cpu: Arc::new([0]),
        thread_names: "cs-".into(),
    };
    Pool::start(
        place,
        Arc::new(attributes),
        settings,
        Arc::new(Event::new()),
        &Arc::new(Monitor::new(Watchdog::default(), settings.most_workers)),
    )
    .expect("the threads start")
}

/// Two items, the second after the first was seen to run: the worker sleeps in between, or is about to,
/// or its idle time has expired.
fn one_by_one(intake: Intake, wake: Wake, limit: usize) {
    two_items(&pool(intake, wake, limit));
}

fn two_items(pool: &Arc<Pool<Loom>>) {
    let link = PoolLink::bare(Arc::clone(pool));
    let ran = Arc::new(Parker::<Loom>::new());
    for _ in 0..2 {
        let told = Arc::clone(&ran);
        let tell = move || {
            told.unpark();
        };
        link.queue(0, tell).ok().expect("the link is open");
        ran.park();
    }
    pool.tell_to_go();
    pool.wait_until_gone();
    assert_eq!(link.counts(), (2, 2), "each item is counted once");
}

/// Fails if `prepare_sleep` does not post the designated waiter (no worker is woken for the item).
#[test]
fn loom_a_sleeping_worker_is_woken_lock_free() {
    Loom::check(2, || one_by_one(Intake::LockFree, Wake::AfterUnlock, 1));
}

/// Fails if `prepare_sleep` does not check the list (an item that arrives between the last claim and the sleep is stranded).
#[test]
fn loom_a_sleeping_worker_is_woken_locked() {
    Loom::check(2, || one_by_one(Intake::Locked, Wake::AfterUnlock, 1));
}

/// The coalesced variant leaves the chosen worker in the idle list. Fails if `may_exit` does not check
/// `kicked`: the chosen worker is culled, and the item stranded.
#[test]
fn loom_a_chosen_worker_is_not_culled() {
    Loom::check(1, || one_by_one(Intake::Locked, Wake::Coalesced, 2));
}

/// One of two workers may be culled while the other is chosen or named. Fails with `appoint_designated` removed from
/// `may_exit`.
#[test]
fn loom_the_last_sleeper_stays_lock_free() {
    Loom::check(1, || one_by_one(Intake::LockFree, Wake::Coalesced, 2));
}

/// Two items at once, for two workers that may be asleep by then: the second item wakes the runner-up, which
/// may be about to exit, be named as the designated waiter, or be chosen by the first.
///
/// Fails if the thread that takes the runner-up off its word does not wake it.
#[test]
#[ignore = "takes minutes: at night"]
fn loom_a_burst_wakes_the_runner_up() {
    Loom::check(1, || {
        let pool = pool(Intake::LockFree, Wake::AfterUnlock, 2);
        let link = PoolLink::bare(Arc::clone(&pool));
        let ran = Arc::new(Parker::<Loom>::new());
        let tell = |ran: &Arc<Parker<Loom>>| {
            let told = Arc::clone(ran);
            move || {
                told.unpark();
            }
        };
        // First one segment's worth of items, so that the burst is in one segment: slots are armed only in the head's segment.
        link.queue(0, || {}).ok().expect("the link is open");
        link.queue(0, tell(&ran)).ok().expect("the link is open");
        ran.park();
        link.queue(0, || {}).ok().expect("the link is open");
        link.queue(0, tell(&ran)).ok().expect("the link is open");
        ran.park();
        pool.tell_to_go();
        pool.wait_until_gone();
        assert_eq!(link.counts(), (4, 4), "each item is counted once");
    });
}

/// A worker suppresses a wake-up for its item, which blocks until the next one is run: a worker is woken for that.
///
/// Fails if `stand_down` forgets the workers that it takes off the wake word.
#[test]
fn loom_who_vouches_and_blocks_leaves_somebody_who_is_told() {
    Loom::check(1, || {
        let pool = trusting_pool(2);
        let link = PoolLink::bare(Arc::clone(&pool));
        let (blocks, ran) = (Arc::new(Parker::<Loom>::new()), Arc::new(Parker::<Loom>::new()));
        let (wakes, told) = (Arc::clone(&blocks), Arc::clone(&ran));
        let wait = move || {
            blocking::<Loom, _>(|| wakes.park());
            told.unpark();
        };
        link.queue(0, wait).ok().expect("the link is open");
        let unpark = move || {
            blocks.unpark();
        };
        link.queue(0, unpark).ok().expect("the link is open");
        ran.park();
        // Now there are two workers, and one may sleep: the worker that claims this takes its name off the wake word.
        link.queue(0, || {}).ok().expect("the link is open");
        pool.tell_to_go();
        pool.wait_until_gone();
        assert_eq!(link.counts(), (3, 3), "each item is counted once");
    });
}

/// The monitor fails to start a stand-in for a blocked worker; meanwhile the worker returns, finds the pool full, and parks.
/// Fails with `pass_on` removed from `start_worker`: the item behind is stranded.
fn a_stand_in_does_not_start(intake: Intake, wake: Wake) {
    Loom::start_at_most(1);
    let pool = pool_of(intake, wake, 1, MAX_WORKERS, None, Hooks::default());
    let link = PoolLink::bare(Arc::clone(&pool));
    let blocks = Arc::new(Parker::<Loom>::new());
    let ends = Arc::new(Parker::<Loom>::new());
    let (inside, wakes) = (Arc::clone(&ends), Arc::clone(&blocks));
    let wait = move || {
        blocking::<Loom, _>(|| {
            inside.unpark();
            wakes.park();
        });
    };
    link.queue(0, wait).ok().expect("the link is open");
    ends.park();
    let told = Arc::clone(&ends);
    let tell = move || {
        told.unpark();
    };
    link.queue(0, tell).ok().expect("the link is open");
    blocks.unpark();
    let hogs = &mut super::monitor::MayHog::new(0, 1);
    let seen = &mut super::monitor::Observations::default();
    super::monitor::scan(&pool, 1, &Watchdog::default(), seen, hogs);
    ends.park();
    pool.tell_to_go();
    pool.wait_until_gone();
    assert_eq!(link.counts(), (2, 2), "each item is counted once");
}

#[test]
fn loom_a_worker_that_lay_down_for_a_failed_start_is_woken_lock_free() {
    Loom::check(2, || a_stand_in_does_not_start(Intake::LockFree, Wake::AfterUnlock));
}

#[test]
fn loom_a_worker_that_lay_down_for_a_failed_start_is_woken_locked() {
    Loom::check(2, || a_stand_in_does_not_start(Intake::Locked, Wake::AfterUnlock));
}

#[test]
fn loom_a_worker_that_lay_down_for_a_failed_start_is_woken_coalesced() {
    Loom::check(2, || a_stand_in_does_not_start(Intake::LockFree, Wake::Coalesced));
}

/// One worker in all, which blocks, and a rescuer, which is called, runs the next item, and stands by when the
/// worker has returned: a worker is woken for the third item.
#[test]
fn loom_a_reserve_leaves_somebody_who_is_told() {
    Loom::check_long(1, 0, || {
        Loom::start_at_most(usize::MAX);
        let pool = pool_of(Intake::LockFree, Wake::AfterUnlock, 1, 1, Some(1), Hooks::default());
        let link = PoolLink::bare(Arc::clone(&pool));
        let (blocks, ran) = (Arc::new(Parker::<Loom>::new()), Arc::new(Parker::<Loom>::new()));
        let wakes = Arc::clone(&blocks);
        let wait = move || blocking::<Loom, _>(|| wakes.park());
        link.queue(0, wait).ok().expect("the link is open");
        let wake = move || {
            blocks.unpark();
        };
        link.queue(0, wake).ok().expect("the link is open");
        let told = Arc::clone(&ran);
        let tell = move || {
            told.unpark();
        };
        link.queue(0, tell).ok().expect("the link is open");
        ran.park();
        pool.tell_to_go();
        pool.wait_until_gone();
        assert_eq!(link.counts(), (3, 3), "each item is counted once");
    });
}

/// A reactor without any events.
struct Quiet(Parker<Loom>);

impl Reactor for Quiet {
    fn wait(&self) {
        self.0.park();
    }

    fn poll(&self) {}

    fn wake(&self) {
        self.0.unpark();
    }
}

/// A worker that waits in a reactor is woken there, whether it is about to enter or to leave. Fails if `sleep_in` calls
/// `begin_elsewhere` after the reactor.
#[test]
fn loom_a_worker_in_a_reactor_is_woken() {
    for intake in [Intake::LockFree, Intake::Locked] {
        Loom::check(2, move || {
            Loom::start_at_most(usize::MAX);
            let hooks = Hooks::new().reactor(SharedReactor::new(Quiet(Parker::new())));
            two_items(&pool_of(intake, Wake::AfterUnlock, 1, MAX_WORKERS, None, hooks));
        });
    }
}

/// A team of this many members. One may run at once.
fn team(members: usize) -> Arc<Pool<Loom>> {
    Loom::start_at_most(usize::MAX);
    let team = OfTeam(Arc::new(TeamSpec { members, ..TeamSpec::default() }));
    let (intake, wake) = (Intake::LockFree, Wake::AfterUnlock);
    let settings = PoolSettings { most_workers: members, ..PoolSettings::for_models() };
    let pool = pool_or_team(intake, wake, 1, settings, None, Hooks::default(), Some(team));
    super::members::make_room(&pool);
    super::members::start_members(&pool, &mut |_| None, &mut None).expect("the threads start");
    pool
}

/// A job that signals when it runs.
fn telling(told: &Arc<Parker<Loom>>) -> ListedJob<Loom> {
    let told = Arc::clone(told);
    let body = JobBody::Call(Box::new(move || {
        told.unpark();
    }));
    ListedJob { body, root: std::ptr::null(), parts: std::ptr::null(), within: std::ptr::null() }
}

/// Two injected jobs, the second after the first was seen to run: the member sleeps in between, or is about to. Then the team
/// ends. Fails if `has_forks` does not check the injected lists.
#[test]
fn loom_a_job_from_outside_wakes_a_member() {
    Loom::check(2, || {
        let pool = team(1);
        let ran = Arc::new(Parker::<Loom>::new());
        for _ in 0..2 {
            inject(&pool, telling(&ran));
            ran.park();
        }
        pool.tell_to_go();
        pool.wait_until_gone();
    });
}

/// A job for one of two members, in whichever order they park. One may run at once. Fails with `choose_for_mail` removed from
/// `sleep`: the one without mail parks, and the other is not woken.
#[test]
fn loom_mail_comes_to_its_member() {
    Loom::check(1, || {
        let pool = team(2);
        let ran = Arc::new(Parker::<Loom>::new());
        for member in 0..2 {
            mail(&pool, member, || telling(&ran))
                .into_iter()
                .for_each(|member| call_member(&pool, member));
        }
        ran.park();
        pool.tell_to_go();
        pool.wait_until_gone();
    });
}

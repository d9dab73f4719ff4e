//! A team: a fixed number of threads, each with its index.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use coreshard_platform::Host;
use coreshard_topology::{Scope, Topology, Usable};
use coreshard_workqueue::{Runtime, Team, TeamError, TeamScope, Yielded, join, join_told};
use testing::{NEVER, wait_until, within};

fn runtime() -> Runtime<Host> {
    let topology = Topology::host().unwrap();
    let usable = Usable::host(&topology).unwrap().cpus().clone();
    Runtime::builder(topology).usable(usable).build().unwrap()
}

fn team(members: usize) -> Team<Host> {
    runtime().team("test").members(members).build().unwrap()
}

/// Teams of one pool, and of several.
fn teams() -> impl Iterator<Item = Team<Host>> {
    let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
    let cpus = Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone();
    let wide = Runtime::builder(topology).laid_over(cpus).build().unwrap();
    let here = runtime();
    let of = |runtime: &Runtime<Host>, members| {
        runtime.team("one of some").members(members).scope(Scope::Cache).build().unwrap()
    };
    [1, 2, 8]
        .map(|members| of(&here, members))
        .into_iter()
        .chain([2, 4, 8].map(|members| of(&wide, members)))
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join::<Host, _, _>(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn what_is_installed_runs_on_a_member_and_may_fork() {
    for team in teams() {
        let members = team.members();
        assert_eq!(team.index(), None, "this thread is not a member");
        assert_eq!(team.install(|| fib(20)), 6765);
        assert!(team.install(|| team.index()).is_some_and(|index| index < members));
    }
}

#[test]
fn many_threads_install_at_once() {
    let team = team(2);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..200).for_each(|n| assert_eq!(team.install(|| n * 2), n * 2)));
        }
    });
}

#[test]
fn a_broadcast_is_done_once_by_each_at_once_if_need_be() {
    for team in teams() {
        let members = team.members();
        assert_eq!(team.broadcast(|index| index), (0..members).collect::<Vec<_>>());
        // Also from inside; and they can wait for one another.
        let met = team.install(|| {
            let all = Barrier::new(members);
            let team = &team;
            team.broadcast(|index| {
                all.wait();
                (index, team.index())
            })
        });
        assert!(met.iter().enumerate().all(|(at, met)| *met == (at, Some(at))), "{met:?}");
    }
}

#[test]
fn two_broadcasts_of_members_meet() {
    let team = team(2);
    let sums = team.install(|| {
        join::<Host, _, _>(
            || team.broadcast(|index| index).len(),
            || team.broadcast(|index| index).len(),
        )
    });
    assert_eq!(sums, (2, 2));
}

#[test]
fn one_member_runs_the_latest_first_or_in_order() {
    let team = team(1);
    let seen = Mutex::new(Vec::new());
    team.scope(|scope| {
        for n in 0..5 {
            let seen = &seen;
            scope.spawn(move |_| seen.lock().unwrap().push(n));
        }
    });
    assert_eq!(*seen.lock().unwrap(), [4, 3, 2, 1, 0]);
    let seen = Mutex::new(Vec::new());
    team.scope(|scope| {
        for n in 0..5 {
            let seen = &seen;
            scope.spawn_fifo(move |_| seen.lock().unwrap().push(n));
        }
    });
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
    let (tell, told) = mpsc::channel();
    team.install(|| {
        for n in 0..5 {
            let tell = tell.clone();
            team.spawn(move || tell.send(n).unwrap());
        }
        for n in 5..10 {
            let tell = tell.clone();
            team.spawn_fifo(move || tell.send(n).unwrap());
        }
    });
    drop(tell);
    let order: Vec<_> = (0..10).map(|_| told.recv_timeout(NEVER).unwrap()).collect();
    assert_eq!(order, [5, 6, 7, 8, 9, 4, 3, 2, 1, 0]);
}

#[test]
fn a_hook_may_send_to_members_that_are_to_come() {
    for _ in 0..50 {
        let seen = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&seen);
        let team = runtime()
            .team("early")
            .members(4)
            .on_start(move |_| {
                let here = Team::<Host>::here().unwrap();
                assert_eq!(here.broadcast(|index| index), [0, 1, 2, 3]);
                told.fetch_add(1, SeqCst);
            })
            .on_panic(|_| std::process::abort())
            .build()
            .unwrap();
        assert_eq!(team.broadcast(|index| index).len(), 4);
        wait_until("all hooks have run", || seen.load(SeqCst) == 4);
    }
}

#[test]
fn a_team_may_run_all_in_the_order_of_its_spawning() {
    let team = runtime().team("in order").members(1).breadth_first().build().unwrap();
    let seen = Mutex::new(Vec::new());
    team.scope(|scope| {
        for n in 0..5 {
            let seen = &seen;
            scope.spawn(move |_| seen.lock().unwrap().push(n));
        }
    });
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn scopes_lend_what_is_outside_and_end_with_their_parts() {
    for team in teams() {
        let sum = AtomicUsize::new(0);
        fn tree<'scope>(scope: &TeamScope<'scope, Host>, depth: usize, sum: &'scope AtomicUsize) {
            sum.fetch_add(1, SeqCst);
            if depth > 0 {
                scope.spawn(move |scope| tree(scope, depth - 1, sum));
                scope.spawn(move |scope| tree(scope, depth - 1, sum));
            }
        }
        team.scope(|scope| tree(scope, 10, &sum));
        assert_eq!(sum.load(SeqCst), 2047);
        // From a thread outside the team.
        let sum = AtomicUsize::new(0);
        team.in_place_scope(|scope| tree(scope, 8, &sum));
        assert_eq!(sum.load(SeqCst), 511);
    }
}

#[test]
fn what_a_part_throws_comes_out_of_the_scope_when_all_are_over() {
    let team = team(2);
    let ran = AtomicUsize::new(0);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        team.scope(|scope| {
            for n in 0..20 {
                let ran = &ran;
                scope.spawn(move |_| {
                    ran.fetch_add(1, SeqCst);
                    assert!(n != 7, "the seventh");
                });
            }
        });
    }));
    assert!(outcome.is_err());
    assert_eq!(ran.load(SeqCst), 20);
    assert_eq!(team.install(|| 3), 3, "the team continues");
}

#[test]
fn detached_panics_go_to_the_handler() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let handler = move |payload: Box<dyn std::any::Any + Send>| {
        let text = payload.downcast_ref::<&str>().copied().unwrap_or("?");
        tell.lock().unwrap().send(text.to_owned()).unwrap();
    };
    let team = runtime().team("panics").members(2).on_panic(handler).build().unwrap();
    team.spawn(|| panic!("detached"));
    assert_eq!(told.recv_timeout(NEVER).unwrap(), "detached");
    team.spawn_broadcast(|_| panic!("each"));
    assert_eq!(told.recv_timeout(NEVER).unwrap(), "each");
    assert_eq!(told.recv_timeout(NEVER).unwrap(), "each");
}

#[test]
fn hooks_and_names_are_by_index_and_the_end_comes_after_the_work() {
    let topology = Topology::from_synthetic("package:1 l3:2 core:2 pu:1").unwrap();
    let cpus = Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone();
    let wide = Runtime::builder(topology).laid_over(cpus).build().unwrap();
    hooks_and_names(&runtime());
    hooks_and_names(&wide);
}

#[test]
fn bytes_that_are_zero_are_left_out_of_members_names() {
    let runtime = runtime();
    let of = |names: fn(usize) -> &'static str| {
        runtime.team("named").members(3).thread_names(move |index| Some(names(index).to_owned()))
    };
    let name = |index| ["\0", "a\0b", "c"][index];
    let team = of(name).build().unwrap();
    let names = team.broadcast(|_| thread::current().name().map(str::to_owned));
    assert_eq!(names.into_iter().flatten().collect::<Vec<_>>(), ["", "ab", "c"]);
    // A caller that starts the threads gets the same names.
    let (tell, told) = mpsc::channel();
    let mut start = move |member: coreshard_workqueue::MemberThread| {
        tell.send(member.name().map(str::to_owned)).unwrap();
        thread::spawn(|| member.run());
        Ok(())
    };
    drop(of(name).build_on(&mut start).unwrap());
    drop(start);
    let told: Vec<_> = told.iter().flatten().collect();
    assert_eq!(told, ["", "ab", "c"]);
}

fn hooks_and_names(runtime: &Runtime<Host>) {
    let (started, exited) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (start, exit) = (Arc::clone(&started), Arc::clone(&exited));
    let team = runtime
        .team("named")
        .members(3)
        .thread_names(|index| Some(format!("member {index}")))
        .on_start(move |index| start.lock().unwrap().push(index))
        .on_exit(move |index| exit.lock().unwrap().push(index))
        .build()
        .unwrap();
    let names = team.broadcast(|_| thread::current().name().map(str::to_owned));
    let names: Vec<_> = names.into_iter().flatten().collect();
    let done = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&done);
    team.spawn(move || {
        thread::sleep(std::time::Duration::from_millis(20));
        let here = Team::<Host>::here().unwrap();
        let inner = Arc::clone(&counted);
        here.spawn(move || assert!(inner.fetch_add(1, SeqCst) < 2));
        // All members are still running.
        assert_eq!(here.broadcast(|index| index), [0, 1, 2]);
        counted.fetch_add(1, SeqCst);
    });
    drop(team);
    wait_until("all members have exited", || exited.lock().unwrap().len() == 3);
    assert_eq!(done.load(SeqCst), 2);
    let all =
        |list: &Mutex<Vec<usize>>| list.lock().unwrap().iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(all(&started), [0, 1, 2].into());
    assert_eq!(all(&exited), [0, 1, 2].into());
    assert_eq!(names, ["member 0", "member 1", "member 2"]);
}

#[test]
fn teams_install_into_one_another() {
    let (one, other) = (team(1), team(1));
    let place = one.install(|| other.install(|| one.install(|| (one.index(), other.index()))));
    assert_eq!(place, (Some(0), None));
}

#[test]
fn threads_of_the_programs_own_are_members() {
    let runtime = runtime();
    let mut handles = Vec::new();
    let team = runtime
        .team("own")
        .members(2)
        .build_on(&mut |member| {
            let index = member.index();
            handles
                .push(thread::Builder::new().name(format!("own {index}")).spawn(|| member.run())?);
            Ok(())
        })
        .unwrap();
    let names = team.broadcast(|_| thread::current().name().unwrap().to_owned());
    assert_eq!(names, ["own 0", "own 1"]);
    drop(team);
    within(NEVER, move || handles.into_iter().for_each(|handle| handle.join().unwrap()));
    let mut calls = 0;
    let refused = runtime.team("refused").members(3).build_on(&mut |member| {
        calls += 1;
        if calls == 2 {
            return Err(io::Error::other("no more"));
        }
        thread::spawn(|| member.run());
        Ok(())
    });
    assert!(matches!(refused, Err(TeamError::Thread(error)) if error.to_string() == "no more"));
    assert_eq!(calls, 2);
}

#[test]
fn a_start_that_fails_leaves_no_member_behind() {
    let topology = Topology::from_synthetic("package:1 l3:4 core:1 pu:1").unwrap();
    let cpus = Usable::host(&Topology::host().unwrap()).unwrap().cpus().clone();
    let runtime = Runtime::<Host>::builder(topology).laid_over(cpus).build().unwrap();
    for fails_at in 0..6 {
        let (count, hook) = (Arc::new(AtomicUsize::new(0)), Arc::new(()));
        let (exited, held) = (Arc::clone(&count), Arc::clone(&hook));
        let builder = runtime.team("fails").members(6).on_exit(move |_| {
            let _held = &held;
            exited.fetch_add(1, SeqCst);
        });
        let refused = builder.build_on(&mut |member| {
            if member.index() == fails_at {
                return Err(io::Error::other("no more"));
            }
            thread::spawn(|| member.run());
            Ok(())
        });
        assert!(matches!(refused, Err(TeamError::Thread(_))));
        wait_until("the started members have exited", || count.load(SeqCst) == fails_at);
        wait_until("and their hooks were dropped", || Arc::strong_count(&hook) == 1);
    }
}

#[test]
fn a_member_that_never_comes_holds_nobody_up() {
    let runtime = runtime();
    for kept in 0..3 {
        let (count, mut later) = (Arc::new(AtomicUsize::new(0)), Vec::new());
        let exited = Arc::clone(&count);
        let builder = runtime.team("lacks").members(3).on_exit(move |_| {
            exited.fetch_add(1, SeqCst);
        });
        let team = builder
            .build_on(&mut |member| {
                match member.index().cmp(&kept) {
                    std::cmp::Ordering::Less => drop(member),
                    std::cmp::Ordering::Equal => drop(thread::spawn(|| member.run())),
                    std::cmp::Ordering::Greater => later.push(member),
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(team.install(|| team.index()), Some(kept));
        drop(team);
        drop(later);
        wait_until("the started member has exited", || count.load(SeqCst) == 1);
        wait_until("no team is left", || runtime.stats().pools.is_empty());
    }
}

#[test]
fn the_runtime_tells_of_its_teams() {
    let runtime = runtime();
    let team = runtime.team("told of").members(2).build().unwrap();
    (0..10).for_each(|_| team.install(|| ()));
    wait_until("its runs are counted", || {
        let queues = runtime.stats().queues;
        queues.iter().any(|queue| queue.name == "told of" && queue.run == 10)
    });
    assert_eq!(runtime.stats().pools.iter().map(|pool| pool.workers).sum::<usize>(), 2);
    drop(team);
    assert!(runtime.stats().queues.is_empty());
}

#[test]
fn the_current_thread_is_a_member() {
    within(NEVER, || {
        let runtime = runtime();
        let team = runtime.team("mine").members(2).with_current_thread().build().unwrap();
        assert_eq!(team.index(), Some(0));
        assert_eq!(team.install(|| fib(15)), 610);
        assert_eq!(team.broadcast(|index| index), [0, 1]);
        team.scope(|scope| (0..100).for_each(|_| scope.spawn(|_| ())));
        let other = runtime.team("other").with_current_thread().build();
        assert!(matches!(other, Err(TeamError::CurrentThreadTaken)));
        let (tell, told) = mpsc::channel();
        team.spawn(move || tell.send(1).unwrap());
        assert_eq!(told.recv_timeout(NEVER), Ok(1), "the other one runs it");
        let alone = thread::spawn(move || {
            let team = runtime.team("alone").members(1).with_current_thread().build().unwrap();
            assert_eq!(team.yield_now(), Some(Yielded::Idle));
            let (tell, told) = mpsc::channel();
            team.spawn(move || tell.send(1).unwrap());
            assert_eq!(team.has_pending(), Some(true));
            assert_eq!(team.yield_local(), Some(Yielded::Ran));
            told.recv().unwrap()
        });
        assert_eq!(alone.join().unwrap(), 1);
    });
}

#[test]
fn a_wait_under_a_lock_ends_whatever_else_there_is() {
    for team in teams() {
        let lock = Mutex::new(0_u64);
        fn each(range: std::ops::Range<u32>, body: &(dyn Fn(u32) + Sync)) {
            match range.len() {
                0 => {}
                1 => body(range.start),
                len => {
                    let middle = range.start + len as u32 / 2;
                    join::<Host, _, _>(
                        || each(range.start..middle, body),
                        || each(middle..range.end, body),
                    );
                }
            }
        }
        team.install(|| {
            each(0..2000, &|_| {
                let mut sum = lock.lock().unwrap();
                let inner = AtomicUsize::new(0);
                each(0..4, &|n| assert!(inner.fetch_add(n as usize, SeqCst) < 7));
                *sum += inner.load(SeqCst) as u64;
            });
        });
        assert_eq!(*lock.lock().unwrap(), 12_000);
    }
}

#[test]
fn detached_work_that_a_wait_needs_is_run_at_last() {
    // No other thread would run it: the only member waits for a team that waits for it.
    let (one, other) = (team(1), team(2));
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    one.install(|| {
        one.spawn(move || tell.send(5).unwrap());
        assert_eq!(other.install(|| told.lock().unwrap().recv_timeout(NEVER)), Ok(5));
    });
}

#[test]
fn a_join_tells_who_was_moved() {
    let team = team(2);
    let (a, b) = team.install(|| {
        let here = team.index();
        join_told::<Host, _, _>(
            |moved| (moved, team.index()),
            |moved| (moved, team.index() != here),
        )
    });
    assert!(!a.0);
    assert_eq!(b.0, b.1);
}

#[test]
fn a_part_may_wait_for_what_was_spawned() {
    // The thread that waits for that part is the only one that could run it.
    for team in [team(2), team(1)] {
        let members = team.members();
        within(NEVER, move || {
            team.install(|| {
                let team = Team::<Host>::here().unwrap();
                let (tell, told) = mpsc::channel();
                let part = move || {
                    if members > 1 {
                        Team::<Host>::here().unwrap().spawn(move || tell.send(7).unwrap());
                        assert_eq!(told.recv_timeout(NEVER), Ok(7));
                    }
                };
                let stolen = AtomicUsize::new(0);
                join::<Host, _, _>(
                    || {
                        if members > 1 {
                            testing::spin_until(|| stolen.load(SeqCst) == 1);
                        }
                    },
                    || {
                        stolen.store(1, SeqCst);
                        part();
                    },
                );
                assert!(team.members() == members);
            });
        });
    }
}

/// For programs that were written for a pool whose waiting threads run any job.
#[test]
fn parts_may_wait_for_one_another() {
    let (one, other) = (team(1), team(1));
    // The other half of a join, which lies below on the same stack.
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    one.install(|| {
        join::<Host, _, _>(
            || other.install(|| assert_eq!(told.lock().unwrap().recv_timeout(NEVER), Ok(1))),
            || tell.send(1).unwrap(),
        )
    });
    // A part of the enclosing scope.
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    one.scope(|scope| {
        scope.spawn(move |_| tell.send(2).unwrap());
        other.install(|| assert_eq!(told.lock().unwrap().recv_timeout(NEVER), Ok(2)));
    });
    // A part spawned before the half that waits for it was stolen.
    let two = team(2);
    let (tell, told) = mpsc::channel();
    let told = Mutex::new(told);
    let stolen = AtomicUsize::new(0);
    two.scope(|scope| {
        join::<Host, _, _>(
            || {
                testing::spin_until(|| stolen.load(SeqCst) == 1);
                scope.spawn(move |_| tell.send(3).unwrap());
            },
            || {
                stolen.store(1, SeqCst);
                assert_eq!(told.lock().unwrap().recv_timeout(NEVER), Ok(3));
            },
        );
    });
}

#[test]
fn teams_that_wait_for_one_another_do_what_comes() {
    let (one, other) = (team(1), team(1));
    thread::scope(|scope| {
        for way in 0..4 {
            let (one, other) = (&one, &other);
            scope.spawn(move || {
                for _ in 0..500 {
                    if way % 2 == 0 {
                        one.install(|| other.install(|| ()));
                    } else {
                        other.install(|| one.install(|| ()));
                    }
                }
            });
        }
    });
}

/// A team built by a thread that was its first member and has exited. The members report their exits.
fn team_without_its_maker(members: usize) -> (Team<Host>, mpsc::Receiver<usize>) {
    let (tell, told) = mpsc::channel();
    let make = move || {
        let runtime = runtime();
        let team = runtime.team("left").members(members).with_current_thread();
        team.on_exit(move |index| tell.send(index).unwrap()).build().unwrap()
    };
    (thread::spawn(make).join().unwrap(), told)
}

#[test]
fn a_team_goes_on_without_the_thread_that_made_it() {
    within(NEVER, || {
        for members in [2, 3, 8] {
            let (team, told) = team_without_its_maker(members);
            let others: BTreeSet<_> = (1..members).collect();
            assert_eq!(team.install(|| fib(15)), 610);
            let asked = Mutex::new(BTreeSet::new());
            let ask = |index| assert!(asked.lock().unwrap().insert(index));
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                team.broadcast(ask);
            }));
            let message = *outcome.unwrap_err().downcast::<&str>().unwrap();
            assert!(message.contains("member 0, and has ended"), "{message}");
            assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), others);
            team.scope(|scope| scope.spawn_broadcast(|_, index| ask(index)));
            assert_eq!(*asked.lock().unwrap(), others);
            let (say, hear) = mpsc::channel();
            team.spawn_broadcast(move |index| say.send(index).unwrap());
            assert_eq!(hear.iter().collect::<BTreeSet<_>>(), others, "all but the first member");
            drop(team);
            assert_eq!(told.iter().collect::<BTreeSet<_>>(), others, "all of its threads exit");
        }
    });
}

#[test]
fn what_was_sent_to_the_thread_that_made_a_team_ends_with_it() {
    within(NEVER, || {
        for turn in 0..30 {
            let (give, given) = mpsc::channel();
            let (end, may_end) = mpsc::channel::<()>();
            let maker = thread::spawn(move || {
                let team = runtime().team("left").members(2).with_current_thread().build().unwrap();
                give.send(team).unwrap();
                may_end.recv().unwrap();
            });
            let team = given.recv().unwrap();
            let kept = Arc::new(());
            let theirs = Arc::clone(&kept);
            // Not waited for: the other member runs it.
            team.spawn_broadcast(move |index| {
                assert_eq!((index, Arc::strong_count(&theirs) > 0), (1, true));
            });
            let is_asked = Arc::new(AtomicUsize::new(0));
            let theirs = Arc::clone(&is_asked);
            let asks = thread::spawn(move || match turn % 2 {
                0 => drop(team.broadcast(|index| theirs.fetch_add(index, SeqCst))),
                _ => team.scope(|scope| {
                    scope.spawn_broadcast(|_, index| _ = theirs.fetch_add(index, SeqCst));
                }),
            });
            // The first member's job is sent before the second's.
            wait_until("both were sent to", || is_asked.load(SeqCst) == 1);
            assert!(!asks.is_finished(), "the first member does not run yet");
            end.send(()).unwrap();
            maker.join().unwrap();
            assert_eq!(asks.join().is_err(), turn % 2 == 0, "a result is missing");
            assert_eq!(is_asked.load(SeqCst), 1);
            wait_until("the sent job is dropped", || Arc::strong_count(&kept) == 1);
        }
    });
}

#[test]
fn a_team_that_cannot_be_had_leaves_the_thread_to_the_next() {
    within(NEVER, || {
        let runtime = runtime();
        let team = || runtime.team("mine").members(3).with_current_thread();
        for index in 1..3 {
            let mut refuse = |member: coreshard_workqueue::MemberThread| {
                if member.index() == index {
                    return Err(io::Error::other("no"));
                }
                thread::spawn(|| member.run());
                Ok(())
            };
            let error = team().build_on(&mut refuse).unwrap_err();
            assert!(matches!(error, TeamError::Thread(_)), "{error}");
            let names = move |member| {
                assert_ne!(member, index, "a name that cannot be made");
                None
            };
            let build = std::panic::AssertUnwindSafe(|| team().thread_names(names).build());
            assert!(std::panic::catch_unwind(build).is_err());
        }
        let team = team().build().unwrap();
        assert_eq!(team.index(), Some(0));
        assert_eq!(team.broadcast(|index| index), [0, 1, 2]);
    });
}

/// Fails if the worker's identity is lost with the team, or if the thread does not act as a member while the team lives.
#[test]
fn a_member_may_run_on_a_worker_which_is_that_worker_again_afterwards() {
    within(NEVER, || {
        let runtime = runtime();
        let queue = runtime.workqueue().build().unwrap();
        let (gives, given) = mpsc::channel();
        let team = runtime
            .team("on workers")
            .members(1)
            .build_on(&mut |member| {
                gives.send(member).unwrap();
                Ok(())
            })
            .unwrap();
        let member = given.recv().unwrap();
        let here = queue.clone();
        let outer = queue
            .submit(move || {
                member.run();
                // As a worker of the queue's pool, it runs subtasks of the job it waits for.
                let sum = coreshard_workqueue::join::<Host, _, _>(|| 1, || 2);
                sum.0 + sum.1 + here.submit(|| 4).unwrap().join().unwrap()
            })
            .unwrap();
        assert_eq!(team.broadcast(|index| index), [0]);
        assert_eq!(team.install(|| coreshard_workqueue::join::<Host, _, _>(|| 1, || 2)), (1, 2));
        assert_eq!(queue.submit(|| 5).unwrap().join().unwrap(), 5, "the pool continues");
        drop(team);
        assert_eq!(outer.join().unwrap(), 7);
    });
}

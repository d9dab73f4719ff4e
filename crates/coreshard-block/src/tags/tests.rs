//! The tag set on real threads.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use coreshard_platform::Host;

use super::*;

fn set(depth: u32, policy: TagPolicy) -> Arc<TagSet<Host>> {
    let spec = TagSetSpec { depth, policy, threads: 2, ..TagSetSpec::default() };
    Arc::new(TagSet::new(spec).unwrap())
}

#[test]
fn the_only_user_may_have_all_tags_under_every_policy() {
    for policy in TagPolicy::ALL {
        for depth in [1, 3, 4, 31, 64, 100, 1000] {
            let set = set(depth, policy);
            let mut port = set.add_user().unwrap().port();
            let tags: Vec<Tag> = std::iter::from_fn(|| port.get()).collect();
            let numbers: HashSet<usize> = tags.iter().map(Tag::index).collect();
            assert_eq!(numbers.len(), depth as usize, "{policy} {depth}");
            assert!(numbers.iter().all(|number| *number < depth as usize));
            assert_eq!(set.in_use(), depth);
            tags.into_iter().for_each(|tag| port.put(tag));
            assert_eq!((set.in_use(), port.held()), (0, 0));
        }
    }
}

#[test]
fn an_uncontended_port_keeps_to_one_tag() {
    let set = set(64, TagPolicy::None);
    let mut port = set.add_user().unwrap().port();
    let first = port.get().unwrap();
    let number = first.index();
    port.put(first);
    for _ in 0..100 {
        let tag = port.get().unwrap();
        assert_eq!(tag.index(), number, "the port takes the tag that it released last");
        port.put(tag);
    }
}

#[test]
fn two_busy_users_have_their_shares() {
    for (policy, least) in [
        (TagPolicy::Packed, 16),
        (TagPolicy::Padded, 16),
        (TagPolicy::Windowed { shared_pct: 50 }, 8),
        (TagPolicy::Windowed { shared_pct: 0 }, 16),
    ] {
        let set = set(32, policy);
        let mut greedy = set.add_user().unwrap().port();
        let mut shy = set.add_user().unwrap().port();
        let first = shy.get().unwrap();
        shy.put(first);
        let taken: Vec<Tag> = std::iter::from_fn(|| greedy.get()).collect();
        let left: Vec<Tag> = std::iter::from_fn(|| shy.get()).collect();
        assert!(left.len() >= least, "{policy}: the shy user has {} of 32", left.len());
        assert_eq!(set.active_users(), 2);
        taken.into_iter().for_each(|tag| greedy.put(tag));
        left.into_iter().for_each(|tag| shy.put(tag));
    }
}

#[test]
fn no_limit_is_below_four() {
    let set = set(8, TagPolicy::Padded);
    let mut ports: Vec<_> = (0..8).map(|_| set.add_user().unwrap().port()).collect();
    for port in &mut ports {
        let tag = port.get().unwrap();
        port.put(tag);
    }
    let taken: Vec<Tag> = std::iter::from_fn(|| ports[0].get()).collect();
    assert_eq!(taken.len(), 4, "one eighth of 8 would be 1");
    taken.into_iter().for_each(|tag| ports[0].put(tag));
}

#[test]
fn an_idle_user_loses_its_share_after_the_grace_period() {
    let grace = Duration::from_millis(50);
    let spec = TagSetSpec { depth: 8, policy: TagPolicy::Padded, grace, ..TagSetSpec::default() };
    let set = Arc::new(TagSet::<Host>::new(spec).unwrap());
    let mut idle = set.add_user().unwrap().port();
    let mut busy = set.add_user().unwrap().port();
    let tag = idle.get().unwrap();
    idle.put(tag);
    let mut taken: Vec<Tag> = std::iter::from_fn(|| busy.get()).collect();
    assert_eq!(taken.len(), 4);
    while taken.len() < 8 {
        match busy.enlist() {
            Some(tag) => taken.push(tag),
            None => {
                // Its own release looks for idle users.
                std::thread::sleep(grace);
                busy.put(taken.pop().unwrap());
                taken.extend(busy.granted());
            }
        }
    }
    assert_eq!(set.active_users(), 1);
    assert!(idle.get().is_none(), "all are taken");
    assert_eq!(set.active_users(), 2, "but it requested its share");
    taken.into_iter().for_each(|tag| busy.put(tag));
}

#[test]
fn users_that_go_leave_their_share_and_their_place() {
    let set = set(8, TagPolicy::Padded);
    let stays = set.add_user().unwrap();
    let mut port = stays.port();
    for _ in 0..100 {
        let goes = set.add_user().unwrap();
        let mut other = goes.port();
        let tag = other.get().unwrap();
        let taken: Vec<Tag> = std::iter::from_fn(|| port.get()).collect();
        assert!(taken.len() < 8);
        other.put(tag);
        taken.into_iter().for_each(|tag| port.put(tag));
        drop((other, goes));
        let taken: Vec<Tag> = std::iter::from_fn(|| port.get()).collect();
        assert_eq!((taken.len(), set.active_users()), (8, 1));
        taken.into_iter().for_each(|tag| port.put(tag));
    }
    assert_eq!(set.registry.lock().users.len(), 2, "entries are reused");
}

#[test]
fn reserved_tags_are_apart() {
    let set = set(2, TagPolicy::None);
    let mut port = set.add_user().unwrap().port();
    let ordinary: Vec<Tag> = std::iter::from_fn(|| port.get()).collect();
    let reserved = port.get_reserved().unwrap();
    assert_eq!(reserved.index(), 2);
    assert!(port.get_reserved().is_none());
    port.put(reserved);
    let reserved = port.get_reserved().unwrap();
    port.put(reserved);
    ordinary.into_iter().for_each(|tag| port.put(tag));
}

#[test]
fn a_waker_is_called_for_a_tag_that_is_handed_over() {
    let set = set(1, TagPolicy::None);
    let (mut first, mut second) = {
        let user = set.add_user().unwrap();
        (user.port(), user.port())
    };
    let woken = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&woken);
    second.set_waker(Arc::new(move || {
        seen.fetch_add(1, Ordering::Relaxed);
    }));
    let tag = first.get().unwrap();
    assert!(second.enlist().is_none() && second.is_enlisted());
    assert!(second.granted().is_none());
    first.put(tag);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    assert!(first.get().is_none(), "the tag was handed over, not freed");
    let tag = second.granted().unwrap();
    assert!(!second.is_enlisted());
    second.put(tag);
    assert_eq!(set.in_use(), 0);
}

#[test]
fn a_port_that_leaves_takes_its_grant_with_it() {
    let set = set(1, TagPolicy::None);
    let user = set.add_user().unwrap();
    let mut first = user.port();
    let tag = first.get().unwrap();
    let mut leaver = user.port();
    assert!(leaver.enlist().is_none());
    first.put(tag);
    drop(leaver);
    assert_eq!(set.in_use(), 0);
    assert!(first.get().map(|tag| first.put(tag)).is_some(), "no mark is left behind");
}

#[test]
fn the_line_is_first_come_first_served() {
    let set = set(1, TagPolicy::None);
    let user = set.add_user().unwrap();
    let mut holder = user.port();
    let mut tag = holder.get().unwrap();
    let mut line: Vec<_> = (0..5).map(|_| user.port()).collect();
    assert!(line.iter_mut().all(|port| port.enlist().is_none()));
    for mut next in line {
        holder.put(tag);
        assert!(holder.get().is_none(), "waiters go first");
        tag = next.granted().unwrap();
        holder = next;
    }
    holder.put(tag);
}

#[test]
fn no_tag_is_held_twice_by_real_threads() {
    for policy in TagPolicy::ALL {
        let set = set(6, policy);
        let held: Arc<[AtomicU32; 6]> = Arc::default();
        let threads: Vec<_> = (0..4)
            .map(|at| {
                let (set, held) = (Arc::clone(&set), Arc::clone(&held));
                let user = set.add_user().unwrap();
                std::thread::spawn(move || {
                    let mut port = user.port();
                    for round in 0..5_000_u32 {
                        let mut tags = vec![port.wait()];
                        while tags.len() < 1 + (round as usize + at) % 3
                            && let Some(tag) = port.get()
                        {
                            tags.push(tag);
                        }
                        for tag in &tags {
                            assert_eq!(held[tag.index()].fetch_add(1, Ordering::Relaxed), 0);
                        }
                        for tag in tags {
                            held[tag.index()].fetch_sub(1, Ordering::Relaxed);
                            port.put(tag);
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(set.in_use(), 0, "{policy}");
    }
}

#[test]
fn what_cannot_be_made_is_told() {
    let made = |depth, reserved| {
        TagSet::<Host>::new(TagSetSpec { depth, reserved, ..TagSetSpec::default() })
    };
    assert!(made(0, 0).unwrap_err().to_string().contains("1 to 1048576"));
    assert!(made(MAX_TAGS + 1, 0).is_err());
    assert!(made(1, 64).unwrap_err().to_string().contains("at most 63"));
}

#[test]
#[should_panic(expected = "but released through port")]
fn a_tag_of_another_set_is_refused() {
    let (one, other) = (set(4, TagPolicy::None), set(4, TagPolicy::None));
    let (mut one, mut other) = (one.add_user().unwrap().port(), other.add_user().unwrap().port());
    let (tag, _kept) = (one.get().unwrap(), other.get());
    let _second = one.get();
    let third = one.get().unwrap();
    one.put(tag);
    other.put(third);
}

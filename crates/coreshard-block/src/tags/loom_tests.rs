//! Models of the tag set. A stranded waiter is a deadlock, which loom reports; a tag held twice is
//! a race on its cell.

use std::sync::Arc;

use coreshard_platform::{DataCell, Loom, LoomCell, Platform, ThreadHandle, ThreadSpec};

use super::{TagPolicy, TagPort, TagSet, TagSetSpec};

struct Owned(Vec<LoomCell<u32>>);

#[allow(unsafe_code)]
// SAFETY: that each cell is touched by one thread at a time is what the model checks.
unsafe impl Sync for Owned {}
#[allow(unsafe_code)]
// SAFETY: as above.
unsafe impl Send for Owned {}

fn use_tags(mut port: TagPort<Loom>, owned: &Owned, rounds: usize) {
    for _ in 0..rounds {
        let tag = port.wait();
        // Fails as a race if another thread has the same tag, or its use is not seen to be over.
        #[allow(unsafe_code)]
        // SAFETY: the holder of a tag is the only one at its cell.
        owned.0[tag.index()].with_mut(|used| unsafe { *used += 1 });
        port.put(tag);
    }
}

/// What the users are when the threads begin.
#[derive(PartialEq)]
enum Users {
    /// Without a share: each asks for one when it takes its first tag.
    Idle(usize),
    /// With their shares.
    Busy(usize),
}

/// Ports of the users named in `ports`, each of which takes and gives back a tag `rounds` times;
/// the first one on the model's own thread.
fn share(policy: TagPolicy, depth: u32, users: Users, ports: &[usize], rounds: usize) {
    let spec = TagSetSpec { depth, reserved: 0, policy, threads: 1, ..TagSetSpec::default() };
    let set = Arc::new(TagSet::<Loom>::new(spec).unwrap());
    let (Users::Idle(count) | Users::Busy(count)) = users;
    let known: Vec<_> = (0..count).map(|_| set.add_user().unwrap()).collect();
    let threads_of = ports;
    let mut ports: Vec<_> = ports.iter().map(|user| known[*user].port()).collect();
    if users == Users::Busy(count) {
        for user in &known {
            let mut port = user.port();
            let tag = port.get().unwrap();
            port.put(tag);
        }
    }
    let owned = Arc::new(Owned((0..depth).map(|_| LoomCell::new(0)).collect()));
    let own = ports.remove(0);
    let threads: Vec<_> = ports
        .into_iter()
        .map(|port| {
            let owned = Arc::clone(&owned);
            let body = Box::new(move || use_tags(port, &owned, rounds));
            Loom::spawn(ThreadSpec::default(), body).unwrap()
        })
        .collect();
    use_tags(own, &owned, rounds);
    threads.into_iter().for_each(ThreadHandle::join);
    assert_eq!(set.in_use(), 0, "no tag is lost");
    let uses: u32 = owned
        .0
        .iter()
        .map(|cell| {
            #[allow(unsafe_code)]
            // SAFETY: all other threads are joined.
            cell.with(|used| unsafe { *used })
        })
        .sum();
    assert_eq!(uses as usize, threads_of.len() * rounds);
}

/// Two threads, one tag, twice each. Fails with `serve` left out of `put` and with `take_or_mark`
/// looking before it marks instead of by the same instruction (deadlocks), with a relaxed
/// `fetch_and` in `put`, and with what `fetch_or` found not looked at in `take_in` (races).
#[test]
fn loom_one_tag_goes_back_and_forth() {
    Loom::check(2, || share(TagPolicy::None, 1, Users::Idle(1), &[0, 0], 2));
}

/// Three threads, one tag: two wait at once. Fails with the marks taken away after a hand-over while
/// somebody is still in line (deadlock).
#[test]
fn loom_two_wait_in_line() {
    Loom::check(1, || share(TagPolicy::None, 1, Users::Idle(1), &[0, 0, 0], 1));
}

/// A user's two threads may have one tag of two at a time, though the other is free. Fails with the
/// mark of the count not looked at in `put` (deadlock).
#[test]
fn loom_a_counted_limit_is_waited_for() {
    for policy in [TagPolicy::Packed, TagPolicy::Padded] {
        Loom::check(2, move || share(policy, 2, Users::Busy(2), &[0, 0], 1));
        Loom::check(1, move || share(policy, 2, Users::Idle(2), &[0, 0, 1], 1));
    }
}

/// Windows of one tag each, from the beginning or made while the first user has both tags. Fails with
/// the slice not marked (deadlock).
#[test]
fn loom_a_window_is_waited_for() {
    let policy = TagPolicy::Windowed { shared_pct: 0 };
    Loom::check(2, move || share(policy, 2, Users::Busy(2), &[0, 0], 1));
    Loom::check(1, move || share(policy, 2, Users::Idle(2), &[0, 0, 1], 1));
}

/// Nothing but a common part, of one tag, for two users. Fails with the common part not marked
/// (deadlock).
#[test]
fn loom_the_common_part_is_waited_for() {
    let policy = TagPolicy::Windowed { shared_pct: 100 };
    Loom::check(2, move || share(policy, 1, Users::Busy(2), &[0, 1], 1));
    let policy = TagPolicy::Windowed { shared_pct: 34 };
    Loom::check(1, move || share(policy, 3, Users::Busy(2), &[0, 0, 0], 1));
}

//! Models of the tag set. loom reports a stranded waiter as a deadlock, and a tag held twice as a race on its
//! cell.

use std::sync::Arc;

use coreshard_platform::{DataCell, Loom, LoomCell, Platform, ThreadHandle, ThreadSpec};

use super::{TagPolicy, TagPort, TagSet, TagSetSpec};

struct Owned(Vec<LoomCell<u32>>);

#[allow(unsafe_code)]
// SAFETY: the model checks that one thread at a time accesses each cell.
unsafe impl Sync for Owned {}
#[allow(unsafe_code)]
// SAFETY: as above.
unsafe impl Send for Owned {}

fn use_tags(mut port: TagPort<Loom>, owned: &Owned, rounds: usize) {
    for _ in 0..rounds {
        let tag = port.wait();
        // Fails as a race if another thread has the same tag, or if the end of its use is not visible.
        #[allow(unsafe_code)]
        // SAFETY: only the holder of a tag accesses its cell.
        owned.0[tag.index()].with_mut(|used| unsafe { *used += 1 });
        port.put(tag);
    }
}

/// The state of the users when the threads begin.
#[derive(PartialEq)]
enum Users {
    /// Without a share: each requests one when it takes its first tag.
    Idle(usize),
    /// With their shares.
    Busy(usize),
}

/// Runs ports of the users in `ports`. Each port takes and releases a tag `rounds` times. The first one
/// runs on the model's own thread.
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
            // SAFETY: all other threads have been joined.
            cell.with(|used| unsafe { *used })
        })
        .sum();
    assert_eq!(uses as usize, threads_of.len() * rounds);
}

/// Two threads, one tag, twice each. Fails if `serve` is left out of `put`, and if `take_or_mark` looks
/// before it marks instead of by the same instruction (deadlocks). Also fails with a relaxed `fetch_and` in
/// `put`, and if `take_in` ignores the result of `fetch_or` (races).
#[test]
fn loom_one_tag_goes_back_and_forth() {
    Loom::check(2, || share(TagPolicy::None, 1, Users::Idle(1), &[0, 0], 2));
}

/// Three threads, one tag: two wait at once. Fails if the marks are removed after a hand-over although a
/// waiter remains (deadlock).
#[test]
fn loom_two_wait_in_line() {
    Loom::check(1, || share(TagPolicy::None, 1, Users::Idle(1), &[0, 0, 0], 1));
}

/// A user's two threads may have one of two tags at a time, although the other is free. Fails if `put`
/// ignores the mark of the count (deadlock).
#[test]
fn loom_a_counted_limit_is_waited_for() {
    for policy in [TagPolicy::Packed, TagPolicy::Padded] {
        Loom::check(2, move || share(policy, 2, Users::Busy(2), &[0, 0], 1));
        Loom::check(1, move || share(policy, 2, Users::Idle(2), &[0, 0, 1], 1));
    }
}

/// Windows of one tag each, from the beginning or created while the first user has both tags. Fails if the
/// slice is not marked (deadlock).
#[test]
fn loom_a_window_is_waited_for() {
    let policy = TagPolicy::Windowed { shared_pct: 0 };
    Loom::check(2, move || share(policy, 2, Users::Busy(2), &[0, 0], 1));
    Loom::check(1, move || share(policy, 2, Users::Idle(2), &[0, 0, 1], 1));
}

/// A common part only, with one tag for two users. Fails if the common part is not marked (deadlock).
#[test]
fn loom_the_common_part_is_waited_for() {
    let policy = TagPolicy::Windowed { shared_pct: 100 };
    Loom::check(2, move || share(policy, 1, Users::Busy(2), &[0, 1], 1));
    let policy = TagPolicy::Windowed { shared_pct: 34 };
    Loom::check(1, move || share(policy, 3, Users::Busy(2), &[0, 0, 0], 1));
}

//! A process that is forked without any fork hook.

use coreshard_platform::{Host, Platform, Reading};
use testing::{Lack, forked, has_membarrier, skip};

#[test]
fn a_forked_process_is_another_generation_though_nobody_has_a_hook() {
    testing::own_process!();
    let parent = Host::process_generation();
    assert_eq!(parent, 0, "no fork happened before");
    forked(|| {
        let child = Host::process_generation();
        if child == parent { Err(format!("still {parent}")) } else { Ok(()) }
    })
    .unwrap();
    assert_eq!(Host::process_generation(), parent);
}

#[test]
fn a_section_in_a_forked_process_is_seen_there_though_nobody_has_a_hook() {
    testing::own_process!();
    if !has_membarrier() {
        return skip(Lack::Membarrier, "grace periods need it");
    }
    // The thread has a reader, which is the parent's.
    drop(Reading::<Host>::begin());
    forked(|| {
        let reading = Reading::<Host>::begin();
        if Host::try_grace_period() {
            return Err("the grace period ended inside a section");
        }
        drop(reading);
        if Host::try_grace_period() {
            Ok(())
        } else {
            Err("the grace period did not end after all sections")
        }
    })
    .unwrap();
}

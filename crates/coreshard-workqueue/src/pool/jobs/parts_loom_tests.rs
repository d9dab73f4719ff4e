//! A model of counted subtasks. It was seen to fail with the addition in `Parts::end` weakened to `Relaxed`, and with tickets
//! that are not returned.
#![allow(unsafe_code)]

use std::sync::Arc;

use coreshard_platform::{DataCell, Loom, Platform};

use super::parts::{Parts, Tickets};

type Cell = <Loom as Platform>::Cell<u32>;

/// A job of two subtasks, and a cell for each one's effect. The first subtask spawns the second.
struct Thing {
    parts: Parts<Loom>,
    done: [Cell; 2],
}

impl Thing {
    fn run(&self, part: usize) {
        // SAFETY: each subtask runs once, and the waiter reads only after both have finished; loom reports a violation.
        self.done[part].with_mut(|done| unsafe { *done += 1 });
    }
}

/// Another thread runs both subtasks, one after the other. The first spawns the second with its thread's ticket; the first is
/// spawned in the body with a ticket of the opener, which then waits for the rest.
#[test]
fn loom_who_waits_for_parts_sees_all_of_them_done() {
    Loom::check(3, || {
        let thing =
            Arc::new(Thing { parts: Parts::new(), done: [DataCell::new(0), DataCell::new(0)] });
        let tickets = Tickets::none();
        let (thread, is_pending) = thing.parts.open(Some(&tickets), || {
            thing.parts.begin(Some(&tickets));
            let thing = Arc::clone(&thing);
            loom::thread::spawn(move || {
                let tickets = Tickets::none();
                let outer = tickets.replace(&raw const thing.parts);
                thing.run(0);
                thing.parts.begin(Some(&tickets));
                thing.run(1);
                let left = tickets.put_back(outer);
                // SAFETY: both were counted, and so were those tickets; the job outlives the call.
                unsafe { Parts::end(&raw const thing.parts, 2 + left) };
            })
        });
        if is_pending {
            assert!(thing.parts.done().wait());
        }
        // SAFETY: both have finished.
        let done: u32 = thing.done.iter().map(|done| done.with(|done| unsafe { *done })).sum();
        assert_eq!(done, 2);
        assert_eq!(thing.parts.pending(), 0);
        thread.join().unwrap();
    });
}

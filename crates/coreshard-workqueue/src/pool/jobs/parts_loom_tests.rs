//! A model of counted parts. It was seen to fail with the addition in `Parts::end` weakened to `Relaxed`, and with tickets that are not
//! given back.
#![allow(unsafe_code)]

use std::sync::Arc;

use coreshard_platform::{DataCell, Loom, Platform};

use super::parts::{Parts, Tickets};

type Cell = <Loom as Platform>::Cell<u32>;

/// A thing of two parts, the second of which is spawned by the first, and a place for what each does.
struct Thing {
    parts: Parts<Loom>,
    done: [Cell; 2],
}

impl Thing {
    fn run(&self, part: usize) {
        // SAFETY: each part is run once, and who waits looks only when both are over: loom reports who does not.
        self.done[part].with_mut(|done| unsafe { *done += 1 });
    }
}

/// Both parts are run by another thread, one after the other, the first of which spawns the second by a ticket of its thread's;
/// the first is spawned in the body, by a ticket of the opener's, who then waits for what is left.
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
                // SAFETY: both were counted, and those tickets; the thing is kept.
                unsafe { Parts::end(&raw const thing.parts, 2 + left) };
            })
        });
        if is_pending {
            assert!(thing.parts.done().wait());
        }
        // SAFETY: both are over.
        let done: u32 = thing.done.iter().map(|done| done.with(|done| unsafe { *done })).sum();
        assert_eq!(done, 2);
        assert_eq!(thing.parts.pending(), 0);
        thread.join().unwrap();
    });
}

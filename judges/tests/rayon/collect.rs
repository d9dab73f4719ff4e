//! `tests/collect.rs` and `src/iter/collect/test.rs`: results after a panic.

use std::sync::Mutex;

use coreshard::join;
use judges::{Counter, Dropped, judge, pool, thrown};

use crate::iter::collect;

/// Tells of its number as it is dropped.
struct Recorded<'list>(i64, &'list Mutex<Vec<i64>>);

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

fn made_and_dropped(panics: bool) -> (Vec<i64>, Vec<i64>) {
    let (made, dropped) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let numbers: Vec<i64> = (0..1024).collect();
    let make = |number: &i64| {
        assert!(!panics || *number <= 740, "unwinding for test");
        made.lock().unwrap().push(*number);
        Recorded(*number, &dropped)
    };
    let text = thrown(|| {
        let all = pool(4).install(|| collect(&numbers, &make)).unwrap();
        assert_eq!(all.len(), numbers.len());
    });
    assert_eq!(text.is_some(), panics);
    let sorted = |list: Mutex<Vec<i64>>| {
        let mut list = list.into_inner().unwrap();
        list.sort_unstable();
        list
    };
    (sorted(made), sorted(dropped))
}

#[test]
fn collect_drop_on_unwind() {
    judge(|| {
        for panics in [true, false] {
            let (made, dropped) = made_and_dropped(panics);
            assert_eq!(made, dropped);
        }
    });
}

#[test]
fn collect_drop_on_unwind_zst() {
    static MADE: Mutex<i64> = Mutex::new(0);
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            *MADE.lock().unwrap() -= 1;
        }
    }
    judge(|| {
        for panics in [true, false] {
            let numbers: Vec<i64> = (0..1024).collect();
            let make = |number: &i64| {
                assert!(!panics || *number <= 740, "unwinding for test");
                *MADE.lock().unwrap() += 1;
                Nothing
            };
            let text = thrown(|| drop(pool(4).install(|| collect(&numbers, &make)).unwrap()));
            assert_eq!((text.is_some(), *MADE.lock().unwrap()), (panics, 0));
        }
    });
}

/// Two halves create elements, and one half panics. All created elements are dropped.
fn one_half_panics(left: &(dyn Fn() + Sync), right: &(dyn Fn() + Sync)) -> Option<String> {
    let dropped = Counter::new();
    let made = Counter::new();
    let make = |panics: &(dyn Fn() + Sync)| -> Vec<Dropped> {
        let first = dropped.on_drop();
        made.add_one();
        panics();
        made.add_one();
        vec![first, dropped.on_drop()]
    };
    let text = thrown(|| pool(2).install(|| join(|| make(left), || make(right))).unwrap());
    assert_eq!(made.get(), dropped.get());
    text
}

#[test]
fn left_panics() {
    judge(|| {
        let text = one_half_panics(&|| panic!("left consumer panic"), &|| ());
        assert_eq!(text.as_deref(), Some("left consumer panic"));
    });
}

#[test]
fn right_panics() {
    judge(|| {
        let text = one_half_panics(&|| (), &|| panic!("right consumer panic"));
        assert_eq!(text.as_deref(), Some("right consumer panic"));
    });
}

#[test]
fn both_panic() {
    judge(|| {
        let text = one_half_panics(&|| panic!("left"), &|| panic!("right"));
        assert_eq!(text.as_deref(), Some("left"));
    });
}

//! Two atomics in one struct.

use std::sync::atomic::{AtomicI64, Ordering};

#[cfg_attr(mended, repr(align(64)))]
struct Own(AtomicI64);

#[repr(C, align(64))]
struct Counters {
    issued: Own,
    done: Own,
}

static COUNTERS: Counters =
    Counters { issued: Own(AtomicI64::new(0)), done: Own(AtomicI64::new(0)) };

#[unsafe(no_mangle)]
extern "C" fn prepare() {}

#[unsafe(no_mangle)]
extern "C" fn bump(thread: i32, times: i64) {
    let mine = if thread == 0 { &COUNTERS.issued } else { &COUNTERS.done };
    for _ in 0..times {
        mine.0.fetch_add(1, Ordering::Relaxed);
    }
}

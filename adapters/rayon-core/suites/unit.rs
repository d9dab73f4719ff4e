//! The public interface of the scheduler under the paths that rayon-core's unit tests use, so that these files can be
//! compiled as published.
//!
//! Two of the paths are internal. `unwind` is a thin wrapper of the standard library. `registry::in_worker` runs a closure
//! on a thread of the pool, which a scope also does. Two tests read a pool's internals, and are left out when the files
//! are copied; `stops` tests the same with the public interface.
#![cfg(test)]

pub use rayon_core::*;

mod unwind {
    use std::any::Any;
    use std::panic::AssertUnwindSafe;

    pub(crate) fn halt_unwinding<R>(call: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
        std::panic::catch_unwind(AssertUnwindSafe(call))
    }
}

mod registry {
    pub(crate) fn in_worker<R: Send>(call: impl FnOnce((), bool) -> R + Send) -> R {
        let injected = rayon_core::current_thread_index().is_none();
        rayon_core::scope(|_| call((), injected))
    }
}

mod broadcast {
    use rayon_core::*;
    mod test;
}

mod join {
    use crate::unwind;
    use rayon_core::*;
    mod test;
}

mod scope {
    mod test;
}

mod spawn {
    use rayon_core::*;
    mod test;
}

mod thread_pool {
    use rayon_core::*;
    mod test;
}

mod test;

mod stops {
    use std::sync::mpsc;
    use std::time::Duration;

    use rayon_core::ThreadPoolBuilder;

    const THREADS: usize = 22;

    /// After a pool with this many threads was used and dropped, each thread exits.
    fn ends(used: impl FnOnce(&rayon_core::ThreadPool)) {
        let (ended, ends) = mpsc::channel();
        let pool = ThreadPoolBuilder::new()
            .num_threads(THREADS)
            .exit_handler(move |index| ended.send(index).unwrap())
            .build()
            .unwrap();
        used(&pool);
        drop(pool);
        let mut indices: Vec<usize> = (0..THREADS)
            .map(|_| ends.recv_timeout(Duration::from_secs(60)).expect("a thread goes on"))
            .collect();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..THREADS));
    }

    #[test]
    fn workers_stop() {
        ends(|pool| pool.install(|| assert_eq!(rayon_core::current_num_threads(), THREADS)));
    }

    #[test]
    fn sleeper_stop() {
        ends(|_| std::thread::sleep(Duration::from_millis(100)));
    }
}

//! The public face of the scheduler under the paths by which its own unit tests name it, so that these files can
//! be compiled as they were published.
//!
//! Two paths are of its inside. `unwind` is a thin word for what the standard library does, and `registry::in_worker`
//! says "on a thread of the pool", which a scope says, too. Two tests look at a pool's inside, and are left out where
//! the files are copied; `stops` asks the same by what a stranger sees.
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

    /// After a pool of so many threads was used and dropped, each of them comes to its end.
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

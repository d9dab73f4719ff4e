//! rayon: a pool of its own, so that its size is said and not guessed.

use super::Spawn;

pub(crate) struct Rayon {
    pub(crate) pool: rayon::ThreadPool,
}

impl Spawn for Rayon {
    fn start(workers: usize) -> Result<Self, String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
        Ok(Self { pool: pool.map_err(|error| error.to_string())? })
    }

    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.pool.spawn(work);
    }
}

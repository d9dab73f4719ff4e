//! Coreshard itself, as its documentation tells: a workqueue with the defaults.

use super::Spawn;

pub(crate) struct Coreshard {
    pub(crate) queue: coreshard::Workqueue,
}

impl Spawn for Coreshard {
    /// The workers follow the CPUs that the process is bound to.
    fn start(_workers: usize) -> Result<Self, String> {
        let builder = coreshard::workqueue().map_err(|error| error.to_string())?;
        let queue = builder.name("peers").build().map_err(|error| error.to_string())?;
        Ok(Self { queue })
    }

    #[inline]
    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.queue.queue(work).expect("the queue is open");
    }

    #[inline]
    fn spawn_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.queue.queue(|| coreshard::blocking(work)).expect("the queue is open");
    }
}

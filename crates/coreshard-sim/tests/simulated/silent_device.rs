//! A block device that never answers, in virtual time: a dropped queue waits a minute for it, and no longer.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use coreshard_block::{
    Backend, Channel, Command, Completion, ErrorClass, Geometry, HostAdapter, HostOptions,
    OpenError, QueueOptions, Request, Waker,
};
use coreshard_platform::Platform;
use coreshard_sim::{Machine, Sim, Simulation};

#[derive(Debug, Default)]
struct Silent {
    channel_is_dropped: Arc<AtomicBool>,
}

struct SilentChannel {
    is_dropped: Arc<AtomicBool>,
}

// SAFETY: never accesses a command's memory.
unsafe impl Channel for SilentChannel {
    unsafe fn start(&mut self, _command: &Command) -> bool {
        true
    }

    fn reap(&mut self, _into: &mut Vec<Completion>) {}

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        Sim::sleep(timeout.expect("a drop does not wait forever for a device"));
        Ok(())
    }

    fn cancel(&mut self, _id: u64) {}

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    fn describe(&self) -> String {
        "silent".to_owned()
    }
}

impl Drop for SilentChannel {
    fn drop(&mut self) {
        self.is_dropped.store(true, SeqCst);
    }
}

impl Backend<Sim> for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn geometry(&self) -> Geometry {
        Geometry { bytes: 1 << 20, block_bytes: 1, memory_align: 1, writable: true }
    }

    fn channel(&self, _depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        Ok(Box::new(SilentChannel { is_dropped: Arc::clone(&self.channel_is_dropped) }))
    }
}

#[test]
fn a_queue_waits_a_minute_for_a_device_that_never_answers() {
    let machine = Machine::named("grace").unwrap();
    let run = Simulation::new(&machine).run(|| {
        let host = HostAdapter::<Sim>::new(HostOptions::default()).unwrap();
        let silent = Arc::new(Silent::default());
        let is_dropped = Arc::clone(&silent.channel_is_dropped);
        let device = host.target("t").device(silent).unwrap();
        let mut queue = device.queue(0, QueueOptions::default()).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let then = move |completed| tell.send(completed).unwrap();
        queue.call(Request::write(0, vec![1; 512]), then).unwrap();
        let before = Sim::now();
        drop(queue);
        let waited = Sim::now() - before;
        let completed = told.try_recv().unwrap();
        let error = completed.result.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Gone, "{error}");
        assert_eq!(completed.payload.bytes(), 0, "the device has it");
        assert!(!device.is_online() && !is_dropped.load(SeqCst));
        waited
    });
    let waited = run.unwrap().value;
    assert!((60..61).contains(&waited.as_secs()), "{waited:?}");
}

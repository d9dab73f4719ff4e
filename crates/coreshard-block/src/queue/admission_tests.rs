//! Targets with a limit: the limit is kept and shared fairly, and other targets have none.
#![allow(unsafe_code)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use coreshard_platform::Host;

use crate::*;

/// The number of commands that devices have at a time, and the maximum so far.
#[derive(Debug, Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Completes a started command at the second reap after it.
#[derive(Debug)]
struct Slow(Arc<Load>);

struct SlowChannel {
    load: Arc<Load>,
    young: Vec<Completion>,
    old: Vec<Completion>,
}

// SAFETY: never accesses a command's memory.
unsafe impl Channel for SlowChannel {
    unsafe fn start(&mut self, command: &Command) -> bool {
        let now = self.load.now.fetch_add(1, SeqCst) + 1;
        self.load.most.fetch_max(now, SeqCst);
        self.young.push(Completion { id: command.id, result: 512 });
        true
    }

    fn reap(&mut self, into: &mut Vec<Completion>) {
        self.load.now.fetch_sub(self.old.len(), SeqCst);
        into.append(&mut self.old);
        self.old.append(&mut self.young);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        // Further reaps complete the commands at hand. Without any, the queue waits for a message or a tag,
        // which the tests check again soon.
        if self.young.is_empty() && self.old.is_empty() {
            std::thread::sleep(timeout.unwrap_or_default().min(Duration::from_micros(50)));
        }
        Ok(())
    }

    fn cancel(&mut self, _id: u64) {}

    fn waker(&self) -> Waker {
        Arc::new(|| {})
    }

    fn describe(&self) -> String {
        "slow".to_owned()
    }
}

impl Backend<Host> for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn geometry(&self) -> Geometry {
        Geometry { bytes: 1 << 20, block_bytes: 1, memory_align: 1, writable: true }
    }

    fn channel(&self, _depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        let load = Arc::clone(&self.0);
        Ok(Box::new(SlowChannel { load, young: Vec::new(), old: Vec::new() }))
    }
}

fn host(depth: u32, tags: TagPolicy) -> Arc<HostAdapter<Host>> {
    let options = HostOptions { depth, tags, threads: 2, ..HostOptions::default() };
    HostAdapter::new(options).unwrap()
}

fn queue_on(
    target: &Arc<Target<Host>>,
    backend: Arc<dyn Backend<Host>>,
    thread: usize,
) -> Queue<Host> {
    let device = target.device(backend).unwrap();
    device.queue(thread, QueueOptions::default()).unwrap()
}

fn queue(target: &Arc<Target<Host>>, load: &Arc<Load>, thread: usize) -> Queue<Host> {
    queue_on(target, Arc::new(Slow(Arc::clone(load))), thread)
}

fn submit(queue: &mut Queue<Host>, requests: usize) {
    for _ in 0..requests {
        queue.submit(Request::read(0, vec![0; 512]), 0).unwrap();
    }
}

#[test]
fn a_target_s_devices_keep_to_its_limit_and_share_it() {
    for tags in TagPolicy::ALL {
        let host = host(64, tags);
        let limited = host.target_with_limit("limited", 8).unwrap();
        let free = host.target("free");
        assert_eq!((limited.limit(), free.limit()), (Some(8), None));
        let [mut load, mut free_load] = [(); 2].map(|()| Arc::new(Load::default()));
        let mut greedy = queue(&limited, &load, 0);
        let mut shy = queue(&limited, &load, 0);
        let mut other = queue(&free, &free_load, 0);
        submit(&mut other, 32);
        submit(&mut greedy, 100);
        let mut shy_done = 0;
        for _ in 0..400 {
            if shy.outstanding() == 0 {
                submit(&mut shy, 1);
            }
            for queue in [&mut greedy, &mut shy, &mut other] {
                queue.poll();
                while let Some(completed) = queue.next() {
                    completed.result.unwrap();
                }
            }
            shy_done += usize::from(shy.outstanding() == 0);
            if greedy.outstanding() == 0 {
                break;
            }
        }
        assert_eq!(greedy.outstanding(), 0, "{tags}: the limited queue makes progress");
        // While the greedy device's 100 requests passed, at most eight at a time.
        assert!(shy_done >= 5, "{tags}: the shy device had {shy_done} requests done");
        let most = |load: &mut Arc<Load>| load.most.load(SeqCst);
        assert!((4..=8).contains(&most(&mut load)), "{tags}: {load:?}");
        assert_eq!(most(&mut free_load), 32, "{tags}: the other target has no limit");
        drop((greedy, shy, other));
        assert_eq!(host.tags().in_use(), 0, "{tags}");
        assert_eq!(limited.limit.as_ref().unwrap().in_use(), 0, "{tags}");
    }
}

/// Both the target and the host are short of tags. Two threads wait for each other's tags, and sleep until
/// they are woken.
#[test]
fn nobody_is_stranded_between_target_and_host() {
    for tags in TagPolicy::ALL {
        for (depth, limit) in [(3, 2), (2, 3), (1, 1)] {
            let host = host(depth, tags);
            let target = host.target_with_limit("narrow", limit).unwrap();
            let threads: Vec<_> = (0..2)
                .map(|thread| {
                    let target = Arc::clone(&target);
                    std::thread::spawn(move || hammer(&target, thread))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(host.tags().in_use(), 0, "{tags}");
            assert_eq!(target.limit.as_ref().unwrap().in_use(), 0, "{tags}");
        }
    }
}

fn hammer(target: &Arc<Target<Host>>, thread: usize) {
    // Delays, so that tags are in use while other threads want them.
    let plan = FaultPlan {
        delayed: 500_000,
        longest_delay: Duration::from_micros(30),
        ..FaultPlan::default()
    };
    let memory = Faulty::new(Arc::new(Memory::<Host>::new(1 << 20)), plan);
    let mut queue = queue_on(target, Arc::new(memory), thread);
    let mut dice = fastrand::Rng::with_seed(thread as u64);
    for _ in 0..50 {
        submit(&mut queue, dice.usize(1..8));
        if dice.u8(..4) == 0 {
            let id = queue.submit(Request::read(0, vec![0; 512]), 1).unwrap();
            queue.cancel(id);
        }
        while queue.outstanding() > dice.usize(..4) {
            queue.wait(None);
            while queue.next().is_some() {}
        }
    }
    // The drop cancels the rest.
    submit(&mut queue, 3);
}

#[test]
fn a_limit_that_cannot_be_is_told() {
    let error = host(4, TagPolicy::None).target_with_limit("t", 0).unwrap_err().to_string();
    assert!(error.contains("invalid depth 0 of a tag set: expected 1 to"), "{error}");
}

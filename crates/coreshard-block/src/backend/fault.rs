//! A backend that injects faults.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use coreshard_platform::{Platform, Time};

use super::channel::{Backend, Channel, Command, Completion, Data, Geometry, Waker};
use crate::buffer::BufferPool;
use crate::open_error::OpenError;
use crate::request::Op;

/// How often each fault is injected, in parts per million of the commands.
///
/// The seed decides which commands fail. Default: no faults, and seed 0.
///
/// Use `..FaultPlan::default()` for the remaining fields; later versions may add some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The seed of the random numbers.
    pub seed: u64,
    /// Fails with EAGAIN before anything is done.
    pub transient: u32,
    /// Fails with EIO before anything is done.
    pub media: u32,
    /// Only the first part of a transfer is done, and reported as such.
    pub short: u32,
    /// The first part of a write is done, and then the write fails with EIO.
    pub torn: u32,
    /// The command is done, but reported late.
    pub delayed: u32,
    /// The longest delay.
    pub longest_delay: Duration,
    /// The command is reported before an earlier one.
    pub reordered: u32,
    /// The command is done, but not reported until it is cancelled.
    pub lost: u32,
    /// The number of commands after which the device disappears (ENODEV); 0: never.
    pub gone_after: u64,
}

/// Wraps a backend, and injects the faults of a [`FaultPlan`].
#[derive(Debug)]
pub struct Faulty<P: Platform> {
    inner: Arc<dyn Backend<P>>,
    plan: FaultPlan,
    commands: Arc<AtomicU64>,
    channels: AtomicU64,
}

impl<P: Platform> Faulty<P> {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Backend<P>>, plan: FaultPlan) -> Self {
        Self { inner, plan, commands: Arc::default(), channels: AtomicU64::new(0) }
    }
}

impl<P: Platform> Backend<P> for Faulty<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, OpenError> {
        let number = self.channels.fetch_add(1, Relaxed);
        Ok(Box::new(FaultyChannel::<P> {
            inner: self.inner.channel(depth)?,
            plan: self.plan,
            commands: Arc::clone(&self.commands),
            random: self.plan.seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F),
            ready: Vec::new(),
            late: Vec::new(),
            will_be_lost: HashSet::new(),
            lost: HashSet::new(),
            torn: HashSet::new(),
            platform: std::marker::PhantomData,
        }))
    }
}

struct FaultyChannel<P: Platform> {
    inner: Box<dyn Channel>,
    plan: FaultPlan,
    commands: Arc<AtomicU64>,
    random: u64,
    /// Completions to report now.
    ready: Vec<Completion>,
    /// Completions to report at their time.
    late: Vec<(Time, Completion)>,
    /// Commands whose completion will be lost; below, those whose completion has been lost.
    will_be_lost: HashSet<u64>,
    lost: HashSet<u64>,
    /// Commands that fail after their first part.
    torn: HashSet<u64>,
    platform: std::marker::PhantomData<P>,
}

impl<P: Platform> FaultyChannel<P> {
    /// Draws a random number below `bound`. SplitMix64 (Sebastiano Vigna, public domain).
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    fn falls(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < u64::from(per_million)
    }

    fn failure(&mut self) -> Option<i32> {
        let commands = self.commands.fetch_add(1, Relaxed);
        if self.plan.gone_after > 0 && commands >= self.plan.gone_after {
            return Some(libc::ENODEV);
        }
        if self.falls(self.plan.transient) {
            return Some(libc::EAGAIN);
        }
        self.falls(self.plan.media).then_some(libc::EIO)
    }

    /// Returns a command for the first part of a transfer with one buffer.
    fn first_part(&mut self, command: &Command) -> Option<Command> {
        let Data::One { start, bytes, registered } = command.data else { return None };
        let blocks = bytes / 512;
        if blocks < 2 || !matches!(command.op, Op::Read | Op::Write) {
            return None;
        }
        let bytes = 512 * (1 + self.below(blocks as u64 - 1) as usize);
        Some(Command { data: Data::One { start, bytes, registered }, ..*command })
    }

    fn sort_completions(&mut self) {
        let mut completed = Vec::new();
        self.inner.reap(&mut completed);
        completed.into_iter().for_each(|completion| self.sort_completion(completion));
    }

    fn sort_completion(&mut self, completion: Completion) {
        if self.will_be_lost.remove(&completion.id) {
            self.lost.insert(completion.id);
            return;
        }
        let completion = match self.torn.remove(&completion.id) && completion.result > 0 {
            true => Completion { result: -libc::EIO, ..completion },
            false => completion,
        };
        if self.falls(self.plan.delayed) {
            let longest = self.plan.longest_delay.as_nanos() as u64;
            let late = Duration::from_nanos(self.below(longest));
            self.late.push((P::now() + late, completion));
        } else if self.falls(self.plan.reordered) && !self.ready.is_empty() {
            let place = self.below(self.ready.len() as u64) as usize;
            self.ready.insert(place, completion);
        } else {
            self.ready.push(completion);
        }
    }

    fn release_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let now = P::now();
        let due = self.late.extract_if(.., |(at, _)| *at <= now).map(|(_, completion)| completion);
        self.ready.extend(due);
    }
}

// SAFETY: commands go to the inner channel, whose contract is the same. Completions reported here were
// reported by the inner channel, or their commands never reached it.
unsafe impl<P: Platform> Channel for FaultyChannel<P> {
    unsafe fn start(&mut self, command: &Command) -> bool {
        if let Some(errno) = self.failure() {
            self.ready.push(Completion { id: command.id, result: -errno });
            return true;
        }
        let torn = command.op == Op::Write && self.falls(self.plan.torn);
        let part =
            if torn || self.falls(self.plan.short) { self.first_part(command) } else { None };
        // SAFETY: by this function's contract; a part of the memory is valid for as long.
        let taken = unsafe { self.inner.start(part.as_ref().unwrap_or(command)) };
        if taken {
            if torn && part.is_some() {
                self.torn.insert(command.id);
            }
            if self.falls(self.plan.lost) {
                self.will_be_lost.insert(command.id);
            }
        }
        taken
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn reap(&mut self, into: &mut Vec<Completion>) {
        self.sort_completions();
        self.release_late();
        into.append(&mut self.ready);
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.sort_completions();
        if !self.ready.is_empty() {
            return Ok(());
        }
        let now = P::now();
        let due = self.late.iter().map(|(at, _)| *at - now).min();
        self.inner.wait(timeout.into_iter().chain(due).min())
    }

    fn cancel(&mut self, id: u64) {
        // Aborting a lost command succeeds, as on a real adapter.
        if self.lost.remove(&id) {
            self.ready.push(Completion { id, result: -libc::ECANCELED });
        } else {
            self.will_be_lost.remove(&id);
            self.inner.cancel(id);
        }
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn register(&mut self, pool: &BufferPool) -> io::Result<bool> {
        self.inner.register(pool)
    }

    fn describe(&self) -> String {
        format!("{}, with faults", self.inner.describe())
    }
}

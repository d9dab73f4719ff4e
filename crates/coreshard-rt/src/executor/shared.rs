//! State that the threads of an executor share, and the threads that run its tasks.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, ForkHook, Lock, Padded, RealTime, user};

use super::cpu::AfterTask;
use super::dispatcher::Dispatcher;
use super::incident::Incidents;
use super::options::Options;
use super::periodic::PeriodicTasks;
use super::priority_array::Task;
use super::priority_thread::{Assignment, PriorityThread};
use super::supervisor::Supervisor;
use super::task_counts::TaskCounts;
use super::timers::Timers;
use crate::error::RtError;
use crate::index::CpuMask;
use crate::level::Priority;

pub(super) struct Shared<P: RealTime> {
    pub(super) options: Options,
    pub(super) dispatcher: Dispatcher<P>,
    pub(super) supervisor: Arc<Supervisor<P>>,
    pub(super) task_counts: TaskCounts<P>,
    pub(super) timers: Timers<P>,
    pub(super) periodics: PeriodicTasks<P>,
    pub(super) incidents: Incidents<P>,
    /// 1 from the shutdown on; the watchdog sleeps on it.
    pub(super) ends: P::AtomicU32,
    /// One bit for each level, set once every CPU has its threads. Read by each spawn, and written with the
    /// first task of a priority.
    prepared: [P::AtomicU64; 2],
    /// Held while threads are started.
    preparing: Lock<P, ()>,
    /// The next task's number, by the position of the spawning CPU. A single counter would be a line that
    /// every CPU writes.
    next_ids: Box<[Padded<P::AtomicU64>]>,
    /// The generation of the process that has its threads.
    process_generation: u32,
}

/// Registered so that forks are counted, and so that the child never drops this state.
impl<P: RealTime> ForkHook for Shared<P> {
    fn forked(&self) {}
}

impl<P: RealTime> Shared<P> {
    pub(super) fn new(options: Options, dispatcher: Dispatcher<P>) -> Self {
        let cpus = dispatcher.cpus().len();
        let cpu_ids = dispatcher.priority_index().cpus().last().map_or(1, |cpu| cpu.index() + 1);
        Self {
            dispatcher,
            supervisor: Supervisor::new(options.stack_bytes),
            task_counts: TaskCounts::new(cpu_ids),
            timers: Timers::new(),
            periodics: PeriodicTasks::new(cpus, options.utilisation_limit),
            incidents: Incidents::new(),
            ends: P::AtomicU32::new(0),
            prepared: std::array::from_fn(|_| P::AtomicU64::new(0)),
            preparing: Lock::new(()),
            next_ids: (0..=cpus).map(|_| Padded::new(P::AtomicU64::new(0))).collect(),
            process_generation: P::process_generation(),
            options,
        }
    }

    /// Returns true in a process that was forked from the threads' process. The threads do not exist here,
    /// and may hold locks.
    pub(super) fn is_forked(&self) -> bool {
        P::process_generation() != self.process_generation
    }

    pub(super) fn check_process(&self) -> Result<(), RtError> {
        if self.is_forked() { Err(RtError::forked()) } else { Ok(()) }
    }

    /// Returns a number that no other task of this executor has.
    pub(super) fn new_id(&self) -> u64 {
        let position = self.dispatcher.position_of(P::current_cpu());
        // The last counter is for CPUs that are not the executor's.
        let position = position.unwrap_or(self.next_ids.len() - 1);
        (position as u64) << 48 | self.next_ids[position].fetch_add(1, Relaxed)
    }

    pub(super) fn new_task(
        &self,
        priority: Priority,
        allowed: CpuMask,
        budget: Option<Duration>,
        run: Box<dyn FnOnce() + Send>,
    ) -> Task {
        let id = self.new_id();
        Task { id, priority, allowed, budget: budget.or(self.options.budget), run }
    }

    /// Accepts a task.
    pub(super) fn accept(&self, task: Task) {
        let guard = self.task_counts.accept();
        self.dispatcher.dispatch(task, P::current_cpu());
        // The thread that runs it counts it out.
        guard.forget();
    }

    /// Starts the threads of `priority` on every CPU, unless they exist.
    pub(super) fn prepare(self: &Arc<Self>, priority: Priority) -> Result<(), RtError> {
        let level = priority.level().index();
        let (word, bit) = (&self.prepared[level / 64], 1 << (level % 64));
        // Acquire pairs with the Release below: the threads are visible.
        if word.load(Acquire) & bit != 0 {
            return Ok(());
        }
        let _preparing = self.preparing.lock();
        let threads = self.options.round_robin.map_or(1, NonZeroUsize::get);
        for (position, cpu) in self.dispatcher.cpus().iter().enumerate() {
            while cpu.lock_state().thread_count(priority) < threads {
                let thread = self.new_thread(position, priority)?;
                cpu.lock_state().add_thread(priority, thread);
            }
        }
        word.fetch_or(bit, Release);
        Ok(())
    }

    /// Starts a thread. The caller puts it into its CPU's slot.
    pub(super) fn new_thread(
        self: &Arc<Self>,
        position: usize,
        priority: Priority,
    ) -> Result<Arc<PriorityThread<P>>, RtError> {
        let policy = self.options.policy_of(priority);
        let thread = PriorityThread::new(policy);
        let (theirs, shared) = (Arc::clone(&thread), Arc::clone(self));
        let cpu = self.dispatcher.cpus()[position].id;
        let body = move || shared.work(position, priority, &theirs);
        self.supervisor.start_thread(format!("rt-{cpu}-{priority}"), Some(cpu), policy, body)?;
        Ok(thread)
    }

    /// Runs tasks until the thread exits.
    fn work(&self, position: usize, priority: Priority, thread: &Arc<PriorityThread<P>>) {
        thread.started();
        loop {
            thread.park();
            loop {
                let task = match thread.take_assignment() {
                    Assignment::None => break,
                    Assignment::Exit => return,
                    Assignment::Run(task) => task,
                };
                let guard = self.task_counts.guard();
                if task.budget.is_some() {
                    thread.begins_task();
                }
                // The handle receives a task's panic. A later panic, of a destructor, is dropped.
                drop(user::call(task.run));
                let next = self.dispatcher.finish(position, priority.level(), Some(thread));
                drop(guard);
                match next {
                    AfterTask::RunNext => {}
                    AfterTask::Sleep => break,
                    AfterTask::Exit => return,
                }
            }
        }
    }
}

//! Which thread runs where: run queues, wake-up placement, slices, idleness, and CPUs that go offline.
//!
//! A woken thread goes to the CPU it ran on last if that is idle, else to an idle CPU of the same LLC, of the
//! same node, of the machine, else to its last CPU's queue. There it may preempt the running thread
//! (`run_queue`). A CPU that would become idle pulls a thread from another's queue, and an idle CPU is sent
//! for one at ticks (`balance`). All of this follows Linux in outline: `select_idle_sibling`, wake-up
//! preemption, balancing.
//!
//! Waking a thread locks its CPU's run queue for the time `wake`; wakers of one CPU queue there. An idle CPU
//! is sent an interrupt, unless it polls, and leaves its idle state before it switches.
//!
//! A CPU that goes offline preempts its thread as soon as that is permitted, and its run queue moves to other
//! CPUs. A thread whose CPUs are all offline may run on any CPU until one of them is back. One CPU stays online.

mod balance;
mod run_queue;
mod task;

use std::io;

use coreshard_platform::{AffinityError, ThreadSpec};
use coreshard_topology::{CpuId, CpuSet};

use super::hardware::Hardware;
use super::settings::Settings;
use crate::cpu_mask::CpuMask;
use crate::machine::{IdleState, Machine, Ps};
use crate::profile::Profile;
use crate::report::Span;
use run_queue::RunQueue;
use task::Share;
pub(crate) use task::Task;

/// How a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// It can continue.
    Runnable,
    /// It waits.
    Waiting,
    /// It has ended.
    Over,
}

#[derive(Default)]
struct Cpu {
    queue: RunQueue,
    /// Since when its current thread has run.
    on_since: Ps,
    slice_end: Ps,
    /// Whether its current thread should be preempted (the kernel's `need_resched`).
    resched: bool,
    idle_since: Ps,
    /// When it has switched away from its last thread.
    idle_from: Ps,
    /// Until when its run queue is locked.
    locked_until: Ps,
    /// The earliest time of its next balancing, and how often it was in vain.
    balances_at: Ps,
    balances_in_vain: u32,
    /// Whether an event for its next tick is scheduled.
    tick_is_expected: bool,
    /// The CPUs of its LLC, and the CPUs of its node.
    llc: CpuMask,
    node: CpuMask,
}

impl Cpu {
    /// Returns when its current thread must yield, if at all.
    #[inline]
    fn preempts_at(&self) -> Ps {
        match self.resched {
            true => 0,
            false if self.queue.has_no_contest() => Ps::MAX,
            false => self.slice_end,
        }
    }
}

pub(crate) struct Scheduler {
    cpus: Vec<Cpu>,
    /// The CPUs' numbers, by position in the machine's list.
    ids: Vec<CpuId>,
    /// By thread number.
    tasks: Vec<Task>,
    all: CpuMask,
    idle: CpuMask,
    offline: CpuMask,
    /// CPUs that fair threads wait for.
    crowded: CpuMask,
    /// Threads in run queues.
    queued: usize,
    profile: Profile,
    /// Whether threads are switched only at waits.
    at_waits: bool,
    online: CpuSet,
    /// The position in the machine's list, by CPU number.
    place_of_cpu: Vec<Option<usize>>,
    pub(crate) context_switches: u64,
    pub(crate) wakeups: u64,
    /// Interrupts sent to idle CPUs.
    pub(crate) ipis: u64,
}

impl Scheduler {
    /// Creates the scheduler. `slice` is the time from tick to tick.
    pub(crate) fn new(machine: &Machine, settings: &Settings, slice: Ps) -> Self {
        let topology = machine.topology();
        let known = topology.cpus();
        let set = |member: &dyn Fn(&coreshard_topology::Cpu) -> bool| {
            CpuMask::of(known.len(), |place| member(&known[place]))
        };
        let highest = topology.online().last().map_or(0, CpuId::index);
        let mut place_of_cpu = vec![None; highest + 1];
        for (place, cpu) in known.iter().enumerate() {
            place_of_cpu[cpu.id.index()] = Some(place);
        }
        let new_cpu = |cpu: &coreshard_topology::Cpu| Cpu {
            queue: RunQueue::new(slice),
            llc: set(&|other| other.llc == cpu.llc),
            node: set(&|other| other.node == cpu.node),
            ..Cpu::default()
        };
        Self {
            cpus: known.iter().map(new_cpu).collect(),
            ids: known.iter().map(|cpu| cpu.id).collect(),
            tasks: Vec::new(),
            all: set(&|_| true),
            idle: set(&|_| true),
            offline: set(&|_| false),
            crowded: set(&|_| false),
            queued: 0,
            profile: settings.profile,
            at_waits: settings.at_waits,
            online: topology.online().clone(),
            place_of_cpu,
            context_switches: 0,
            wakeups: 0,
            ipis: 0,
        }
    }

    pub(crate) fn id_of(&self, cpu: usize) -> CpuId {
        self.ids[cpu]
    }

    /// Returns the CPUs' numbers, by position in the machine's list.
    pub(crate) fn ids(&self) -> Vec<CpuId> {
        self.ids.clone()
    }

    pub(crate) fn place_of(&self, cpu: CpuId) -> Option<usize> {
        self.place_of_cpu.get(cpu.index()).copied().flatten()
    }

    /// Returns the thread that a CPU runs.
    #[inline]
    pub(crate) fn current(&self, cpu: usize) -> Option<usize> {
        self.cpus[cpu].queue.current()
    }

    /// Returns the thread that a CPU runs, or is about to run.
    pub(crate) fn current_or_next(&self, cpu: usize) -> Option<usize> {
        self.cpus[cpu].queue.current_or_next()
    }

    /// Returns the CPU that a thread runs on, or ran on last.
    pub(crate) fn cpu_of(&self, thread: usize) -> usize {
        self.tasks[thread].cpu
    }

    pub(crate) fn priority_of(&self, thread: usize) -> u8 {
        self.tasks[thread].fifo_priority
    }

    /// Returns since when a CPU has been idle, if it is.
    pub(crate) fn idle_since(&self, cpu: usize) -> Option<Ps> {
        self.idle.has(cpu).then(|| self.cpus[cpu].idle_since)
    }

    /// Returns how long a thread has been on CPUs so far.
    pub(crate) fn cpu_time_of(&self, thread: usize, now: Ps) -> Ps {
        let task = &self.tasks[thread];
        let cpu = &self.cpus[task.cpu];
        let runs = cpu.queue.current() == Some(thread);
        task.on_cpu + if runs { now.saturating_sub(cpu.on_since) } else { 0 }
    }

    /// Returns when the thread of a CPU must yield, if at all.
    #[inline]
    pub(crate) fn preempts_at(&self, cpu: usize) -> Ps {
        self.cpus[cpu].preempts_at()
    }

    /// Checks a set of CPUs as the kernel does: missing CPUs are skipped, but one must be left. The result
    /// must be the requested set.
    fn affinity(&self, cpus: &CpuSet) -> Result<CpuMask, AffinityError> {
        let mut affinity = CpuMask::of(self.cpus.len(), |_| false);
        cpus.iter().filter_map(|cpu| self.place_of(cpu)).for_each(|place| affinity.insert(place));
        let is_offline = CpuMask::len_of_common(&[&affinity, &self.offline]) > 0;
        if !cpus.is_empty() && cpus.is_subset(&self.online) && !is_offline {
            return Ok(affinity);
        }
        let offline = if is_offline { ", and some of the requested ones are offline" } else { "" };
        let problem = format!("the simulated machine's CPUs are {}{offline}", self.online);
        let reason = io::Error::new(io::ErrorKind::InvalidInput, problem);
        Err(AffinityError::refused(cpus.clone(), reason))
    }

    /// Sets a thread's CPUs. Returns true if it may stay on `cpu`.
    pub(crate) fn set_affinity(
        &mut self,
        thread: usize,
        cpus: &CpuSet,
        cpu: usize,
    ) -> Result<bool, AffinityError> {
        let asked = self.affinity(cpus)?;
        let task = &mut self.tasks[thread];
        task.affinity = asked.clone();
        task.asked = asked;
        task.affinity_set = cpus.clone();
        Ok(task.affinity.has(cpu))
    }

    /// Creates a thread that is to be [added](Self::add). It inherits its creator's CPUs if it requests none.
    pub(crate) fn new_task(
        &self,
        spec: &mut ThreadSpec,
        fifo_priority: u8,
        hw: &Hardware,
    ) -> Result<Task, AffinityError> {
        let (asked, affinity_set) = match (spec.affinity.take(), self.tasks.get(hw.thread)) {
            (Some(cpus), _) => (self.affinity(&cpus)?, cpus),
            (None, None) => (self.all.clone(), self.online.clone()),
            (None, Some(creator)) => (creator.asked.clone(), creator.affinity_set.clone()),
        };
        Ok(Task {
            cpu: hw.cpu,
            affinity: self.online_of(&asked),
            asked,
            affinity_set,
            fifo_priority,
            share: Share::of_nice(spec.nice.unwrap_or(0)),
            on_cpu: 0,
            ran_here_until: None,
        })
    }

    pub(crate) fn add(&mut self, task: Task) {
        self.tasks.push(task);
    }

    /// Returns the CPU of a woken thread, and how many CPUs were checked to find it.
    fn select_cpu(&self, woken: usize, hw: &Hardware) -> (usize, u64) {
        let task = &self.tasks[woken];
        let (last, allowed) = (task.cpu, &task.affinity);
        if allowed.has(last) && self.idle.has(last) {
            return (last, 0);
        }
        let has_detail = hw.costs.scheduler.is_some();
        if has_detail && let Some(chosen) = self.stacks_on(woken, hw.cpu) {
            return (chosen, 0);
        }
        let llc = &self.cpus[last].llc;
        let looked_at = if has_detail { self.scanned(llc, allowed) } else { 0 };
        let first = |near: &CpuMask| CpuMask::first_common(last, &[&self.idle, allowed, near]);
        let chosen = first(llc)
            .or_else(|| first(&self.cpus[last].node))
            .or_else(|| first(allowed))
            .or_else(|| allowed.has(last).then_some(last))
            .or_else(|| allowed.iter().min_by_key(|cpu| self.cpus[*cpu].queue.waiting()))
            .expect("an affinity names a CPU of the machine");
        (chosen, looked_at)
    }

    /// A thread that may run on only one CPU goes there. A thread that such a thread wakes on its own CPU,
    /// where no other thread waits, stays there (Linux' `select_idle_sibling`: a per-CPU thread is about to
    /// sleep).
    fn stacks_on(&self, woken: usize, waker_cpu: usize) -> Option<usize> {
        let task = &self.tasks[woken];
        if task.affinity.len() == 1 {
            return task.affinity.iter().next();
        }
        let waker = self.current(waker_cpu)?;
        let stacks = self.profile == Profile::InKernel
            && task.cpu == waker_cpu
            && self.tasks[waker].affinity.len() == 1
            && self.cpus[waker_cpu].queue.waiting() == 0
            && task.affinity.has(waker_cpu);
        stacks.then_some(waker_cpu)
    }

    /// Returns how many CPUs of an LLC are checked for an idle one: none, if few are idle (`SIS_UTIL`).
    fn scanned(&self, llc: &CpuMask, allowed: &CpuMask) -> u64 {
        let cpus = CpuMask::len_of_common(&[llc, allowed]).max(1);
        let idle = CpuMask::len_of_common(&[&self.idle, llc, allowed]);
        // The average number of busy CPUs between two idle ones. If most are busy, the kernel checks few.
        let busy = cpus - idle.min(cpus);
        let most = (cpus * cpus).saturating_sub(busy * busy) / cpus;
        if idle == 0 { most.min(cpus) } else { cpus.div_ceil(idle).min(most.max(1)) }
    }

    /// Records that a CPU's queue of fair threads has changed.
    fn note_queue(&mut self, cpu: usize) {
        if self.cpus[cpu].queue.fair().is_empty() {
            self.crowded.remove(cpu);
        } else {
            self.crowded.insert(cpu);
        }
    }

    /// Makes a thread runnable at `at`. Returns when the waker has finished.
    pub(crate) fn wake(&mut self, hw: &mut Hardware, thread: usize, at: Ps) -> Ps {
        self.wakeups += 1;
        // A thread that is still in a CPU's contest is woken there, without a search for another CPU.
        let task = &self.tasks[thread];
        let (target, looked_at) =
            if task.share.is_delayed { (task.cpu, 0) } else { self.select_cpu(thread, hw) };
        // A timer's interrupt has its lines in the cache.
        let (remote, way) = match target == hw.cpu {
            true => (0, 0),
            false => (hw.costs.wake_remote, hw.memory.latency(hw.cpu, target)),
        };
        let (scan, wake_lines) = hw.costs.scheduler.map_or((0, 0), |it| (it.scan, it.wake_lines));
        let locked = (at + looked_at * scan).max(self.cpus[target].locked_until);
        let mut done = locked + hw.noise.call(hw.costs.wake + remote) + wake_lines * way;
        self.cpus[target].locked_until = done;
        if self.idle.has(target) {
            let (sent, begin) = self.rouse(hw, target, done);
            done = sent;
            self.enqueue(thread, target, done);
            hw.agenda.step_at(target, begin);
        } else {
            self.enqueue(thread, target, done);
            self.consider_preemption(hw, thread, target, done);
        }
        done
    }

    /// Ends the idleness of a CPU. Returns when its waker has finished, and when it can begin.
    fn rouse(&mut self, hw: &mut Hardware, target: usize, at: Ps) -> (Ps, Ps) {
        self.idle.remove(target);
        let idle_from = self.cpus[target].idle_from;
        if at < idle_from {
            // It is not idle yet, and searches for work before it is.
            return (at, idle_from);
        }
        let (mut sent, mut begin) = (at, at);
        let polls = |state: &IdleState| state.polls;
        // An idle CPU runs no waker: if it is this one, its own timer has expired.
        if target != hw.cpu && !hw.costs.idle_state(at - idle_from).is_some_and(polls) {
            self.ipis += 1;
            sent += hw.costs.ipi_send;
            begin = sent;
        }
        let exit = hw.costs.idle_state(begin - idle_from).map_or(0, |state| state.exit);
        (sent, begin + hw.noise.exit(exit))
    }

    /// Adds a thread to a CPU's run queue.
    fn enqueue(&mut self, thread: usize, target: usize, at: Ps) {
        let task = &mut self.tasks[thread];
        if task.cpu != target {
            task.ran_here_until = None;
            task.cpu = target;
        }
        self.cpus[target].queue.wake(&mut self.tasks, thread, at);
        self.line_up(thread, target);
    }

    /// Adds a thread to the queue of a CPU that it competes for.
    fn line_up(&mut self, thread: usize, target: usize) {
        self.queued += 1;
        self.cpus[target].queue.line_up(&self.tasks, thread);
        self.note_queue(target);
    }

    /// Decides whether a thread that was queued on `target` preempts the running one.
    fn consider_preemption(&mut self, hw: &mut Hardware, thread: usize, target: usize, at: Ps) {
        let Some(current) = self.current(target) else { return };
        let (woken, runs) = (self.priority_of(thread), self.priority_of(current));
        let is_user_code = self.profile == Profile::Futex;
        let preempts = if woken == runs {
            // Kernel code continues until it sleeps, or until its slice ends (lazy preemption).
            let queue = &mut self.cpus[target].queue;
            woken == 0 && is_user_code && queue.takes_the_cpu(&mut self.tasks, thread, at)
        } else {
            woken > runs
        };
        self.expect_tick(hw, target, at);
        let cpu = &mut self.cpus[target];
        cpu.resched |= preempts;
        // While no thread waits, ticks are ignored.
        if cpu.slice_end <= at {
            cpu.slice_end = cpu.queue.next_tick(at);
        }
        let leaves = if preempts { at } else { cpu.preempts_at() };
        if !is_user_code {
            return;
        }
        if target == hw.cpu {
            hw.agenda.lower_horizon(leaves);
        } else if hw.spinning.is_asleep(target) && leaves != Ps::MAX {
            let time = leaves.max(hw.agenda.clock(target)).max(at);
            if hw.agenda.next_step(target).is_none_or(|step| step > time) {
                hw.agenda.step_at(target, time);
            }
        }
    }

    /// Returns true if the running thread continues, and false if it must yield.
    pub(crate) fn goes_on(&mut self, cpu: usize, now: Ps) -> bool {
        let Some(thread) = self.current(cpu) else { return false };
        if !self.tasks[thread].affinity.has(cpu) || self.offline.has(cpu) {
            return false;
        }
        let cpu = &mut self.cpus[cpu];
        let goes_on = cpu.queue.keeps(&mut self.tasks, thread, now);
        if goes_on {
            cpu.resched = false;
            cpu.slice_end = cpu.queue.next_tick(now);
        }
        goes_on
    }

    /// Called when the running thread yields. Returns true if no other thread waits, and it continues without
    /// a switch.
    pub(crate) fn yields_to_none(&mut self, cpu: usize, now: Ps) -> bool {
        let queue = &mut self.cpus[cpu].queue;
        queue.forfeit(&mut self.tasks, now);
        queue.first_fifo().is_none() && self.goes_on(cpu, now)
    }

    /// Takes the current thread off its CPU.
    pub(crate) fn switch_out(&mut self, hw: &mut Hardware, number: usize, now: Ps, leaves: Leaves) {
        hw.drain_stores(number);
        let cpu = &mut self.cpus[number];
        cpu.queue.charge(&mut self.tasks, now);
        let Some(thread) = cpu.queue.current() else { return };
        let task = &mut self.tasks[thread];
        task.on_cpu += now.saturating_sub(cpu.on_since);
        task.ran_here_until = Some(now);
        if let Some(recorder) = &mut hw.recorder {
            recorder.span(Span { cpu: number, thread, start: cpu.on_since, end: now });
        }
        let may_stay = task.affinity.has(number);
        let sleeps_here = leaves == Leaves::Waiting && may_stay && !self.offline.has(number);
        cpu.queue.leave(&mut self.tasks, thread, sleeps_here);
        if leaves == Leaves::Runnable {
            if may_stay {
                self.line_up(thread, number);
            } else {
                self.wake(hw, thread, now);
            }
        }
    }

    /// Puts the next thread on a CPU that has none. Returns when it begins; `None` if there is no thread, and
    /// the CPU is idle.
    pub(crate) fn switch_in(&mut self, hw: &mut Hardware, number: usize, now: Ps) -> Option<Ps> {
        let cpu = &mut self.cpus[number];
        cpu.resched = false;
        if self.offline.has(number) {
            return None;
        }
        let mut begin = now;
        let next = cpu.queue.pick(&mut self.tasks);
        self.note_queue(number);
        let next = match next {
            Some(next) => next,
            None => {
                let Some(pulled) = self.pull_for(number, now) else {
                    let cpu = &mut self.cpus[number];
                    cpu.idle_since = now;
                    cpu.idle_from = now + hw.costs.context_switch;
                    self.idle.insert(number);
                    self.expect_ticks(hw, now);
                    return None;
                };
                begin += hw.costs.wake;
                self.cpus[number].queue.enter(&mut self.tasks, pulled);
                pulled
            }
        };
        self.queued -= 1;
        self.context_switches += 1;
        begin += hw.noise.call(hw.costs.context_switch);
        self.tasks[next].cpu = number;
        let cpu = &mut self.cpus[number];
        cpu.queue.run(next, now);
        cpu.on_since = begin;
        cpu.slice_end = cpu.queue.next_tick(begin);
        self.expect_tick(hw, number, now);
        Some(begin)
    }

    /// Sets a thread's SCHED_FIFO priority; 0 for none.
    pub(crate) fn set_priority(
        &mut self,
        hw: &mut Hardware,
        thread: usize,
        priority: u8,
        is_runnable: bool,
    ) {
        let was = self.priority_of(thread);
        if was == priority {
            return;
        }
        let (now, target) = (hw.now, self.cpu_of(thread));
        let queue = &mut self.cpus[target].queue;
        let runs = queue.current() == Some(thread);
        let waits_here = is_runnable && !runs;
        queue.charge(&mut self.tasks, now);
        if was == 0 && (waits_here || runs) {
            queue.note_lag(&mut self.tasks, thread);
        }
        if self.tasks[thread].share.is_delayed {
            queue.end_delays(&mut self.tasks);
        }
        // A thread between two CPUs is in no queue, and will be put into one.
        let was_queued = waits_here && queue.remove(thread);
        self.tasks[thread].fifo_priority = priority;
        if runs && priority == 0 {
            queue.enter_current(&mut self.tasks);
        }
        let first_fifo = queue.first_fifo();
        self.note_queue(target);
        if was_queued {
            self.queued -= 1;
            self.enqueue(thread, target, now);
            self.consider_preemption(hw, thread, target, now);
        } else if runs && let Some(first) = first_fifo {
            self.consider_preemption(hw, first, target, now);
        }
    }

    /// Returns the online CPUs that a thread requested, or all online CPUs if none of these is online.
    fn online_of(&self, asked: &CpuMask) -> CpuMask {
        let own = asked.without(&self.offline);
        if own.len() > 0 { own } else { self.all.without(&self.offline) }
    }

    fn renew_affinities(&mut self) {
        for thread in 0..self.tasks.len() {
            self.tasks[thread].affinity = self.online_of(&self.tasks[thread].asked);
        }
    }

    /// Returns the online CPUs.
    pub(crate) fn online_cpus(&self) -> Vec<usize> {
        self.all.without(&self.offline).iter().collect()
    }

    pub(crate) fn go_offline(&mut self, hw: &mut Hardware, number: usize, now: Ps) {
        self.offline.insert(number);
        self.idle.remove(number);
        self.renew_affinities();
        let threads = self.cpus[number].queue.take_all(&mut self.tasks, now);
        self.queued -= threads.len();
        self.note_queue(number);
        for thread in threads {
            self.wake(hw, thread, now);
        }
        if self.current(number).is_some() {
            self.cpus[number].resched = true;
            if hw.spinning.is_asleep(number) {
                hw.agenda.step_at(number, now.max(hw.agenda.clock(number)));
            }
        }
    }

    /// Brings a CPU back online: it searches for a thread to run, and becomes idle if there is none.
    pub(crate) fn come_online(&mut self, hw: &mut Hardware, cpu: usize, now: Ps) {
        self.offline.remove(cpu);
        self.renew_affinities();
        if self.current(cpu).is_none() && hw.agenda.next_step(cpu).is_none() {
            hw.agenda.step_at(cpu, now);
        }
    }
}

//! The life of a virtual thread: where it may run, its coroutine, its end.
#![allow(unsafe_code)]

use std::io;

use coreshard_platform::{AffinityError, LocalKey, SpawnError, ThreadSpec, user};
use coreshard_topology::CpuSet;
use corosensei::Coroutine;

use super::share::Share;
use super::state::{SimState, current};
use super::thread::{Thread, ThreadState};
use super::turn::{in_turn, with};

impl SimState {
    pub(super) fn affinity(&self, cpus: &CpuSet) -> Result<Box<[u64]>, AffinityError> {
        let mut affinity = vec![0_u64; self.idle.len()];
        for cpu in cpus {
            let index = self.index_of_cpu.get(cpu.index()).copied().flatten();
            if let Some(index) = index {
                affinity[index as usize / 64] |= 1 << (index % 64);
            }
        }
        // As the kernel: CPUs that are not there are passed over, but one must be left; and the
        // answer must be what was asked for.
        let offline = affinity.iter().zip(&self.offline).any(|(asked, off)| asked & off != 0);
        if !cpus.is_empty() && cpus.is_subset(&self.online) && !offline {
            return Ok(affinity.into());
        }
        let offline = if offline { ", and some of those asked for are offline" } else { "" };
        let problem = format!("the simulated machine's CPUs are {}{offline}", self.online);
        let reason = io::Error::new(io::ErrorKind::InvalidInput, problem);
        Err(AffinityError::refused(cpus.clone(), reason))
    }

    pub(super) fn new_thread(
        &mut self,
        spec: ThreadSpec,
        fifo_priority: u8,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<usize, SpawnError> {
        let (affinity, affinity_set) = match spec.affinity {
            Some(cpus) => {
                let affinity = self
                    .affinity(&cpus)
                    .map_err(|error| SpawnError::affinity(spec.name.clone(), error))?;
                (affinity, cpus)
            }
            None if self.threads.is_empty() => (self.all_cpus.clone(), self.online.clone()),
            None => {
                let creator = &self.threads[self.thread];
                (creator.asked.clone(), creator.affinity_set.clone())
            }
        };
        // SAFETY: the arena lives as long as the simulation, and this is its only user now.
        let stack = unsafe { self.arena.as_mut() }.stack();
        let stack = stack.map_err(|reason| SpawnError::refused(spec.name.clone(), reason))?;
        let number = self.threads.len();
        let body = Coroutine::with_stack(stack, move |suspender, ()| {
            let sim = current().expect("a coroutine is resumed inside its simulation");
            with(sim, |sim| {
                sim.suspender = suspender;
                sim.threads[number].suspender = suspender;
            });
            // A panic was printed by its hook; it ends this thread alone, as on the host.
            if let Err(thrown) = user::call(body) {
                drop(thrown);
                with(sim, |sim| sim.panicked += 1);
            }
            // Its end is for others to see: not before its time.
            in_turn(sim);
        });
        if let Some(pulse) = &self.pulse {
            pulse.thread_is_new(&spec.name);
        }
        self.threads.push(Thread {
            name: spec.name,
            body: Some(Box::new(body)),
            suspender: std::ptr::null(),
            state: ThreadState::Runnable,
            affinity: self.online_of(&affinity),
            asked: affinity,
            affinity_set,
            cpu: self.cpu,
            fifo_priority,
            share: Share::of_nice(spec.nice.unwrap_or(0)),
            on_cpu: 0,
            ran_here_until: None,
            locals: [std::ptr::null_mut(); LocalKey::COUNT],
            joiners: Vec::new(),
            deadline: None,
            timer_at: None,
            timed_out: false,
            wakes_by_chance: false,
            hands_lock_to: None,
            held_locks: Vec::new(),
            items: Vec::new(),
            waited_at: None,
            granted: None,
            turns_over: 0,
            is_interrupted: false,
        });
        self.alive += 1;
        Ok(number)
    }

    /// The thread at hand has returned.
    pub(super) fn finish_thread(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        thread.state = ThreadState::Over;
        let body = thread.body.take().expect("a thread that runs has a body");
        let joiners = std::mem::take(&mut thread.joiners);
        // SAFETY: as in `new_thread`.
        unsafe { self.arena.as_mut() }.take_stack_back(body.into_stack());
        self.alive -= 1;
        for joiner in joiners {
            self.now = self.make_runnable(joiner, self.now);
        }
    }
}

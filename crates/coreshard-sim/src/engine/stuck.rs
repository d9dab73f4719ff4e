//! Why a run came to no end: who waits for what.
#![allow(unsafe_code)]

use std::fmt;
use std::io;

use super::state::SimState;
use super::thread::{ThreadState, Wait};
use crate::machine::NS;
use crate::memory::Place;

/// Why a simulation came to no end.
pub enum SimError {
    /// The simulation cannot be set up.
    Setup(io::Error),
    /// Every thread waits for something that cannot come any more.
    Deadlock(Stuck),
    /// The time limit is over.
    TimeLimit(Stuck),
    /// A rule is broken: one of the engine's, or of the closure that watches the run.
    Broken {
        /// Which rule, and how.
        rule: String,
        /// What each thread did then.
        stuck: Stuck,
    },
    /// It was told to stop.
    Stopped,
}

/// Who waits for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The seed, to run it again.
    pub seed: u64,
    /// The virtual time of the last event, in nanoseconds.
    pub at_ns: u64,
    /// The trace hash until then, as [`Summary`](super::Summary) has it.
    pub trace_hash: u64,
    /// Each thread that is not over.
    pub threads: Vec<WaitingThread>,
}

/// A thread that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingThread {
    /// Its name.
    pub name: String,
    /// What it waits for, or does, in words.
    pub waits_for: String,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ns of virtual time, with seed {}:", self.at_ns, self.seed)?;
        for thread in &self.threads {
            write!(f, "\n  {:?} {}", thread.name, thread.waits_for)?;
        }
        Ok(())
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => write!(f, "the simulation cannot be set up: {error}"),
            Self::Deadlock(stuck) => write!(f, "the simulated program is deadlocked {stuck}"),
            Self::TimeLimit(stuck) => {
                write!(f, "the simulated program came to no end within its time limit {stuck}")
            }
            Self::Broken { rule, stuck } => write!(f, "{rule}\n{stuck}"),
            Self::Stopped => f.write_str("the simulation was stopped"),
        }
    }
}

coreshard_topology::readable_debug!(SimError);

impl std::error::Error for SimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text has what it says itself already.
            Self::Setup(error) => error.source(),
            Self::Deadlock(_) | Self::TimeLimit(_) | Self::Broken { .. } | Self::Stopped => None,
        }
    }
}

impl SimState {
    pub(super) fn stuck(&self, seed: u64) -> Stuck {
        Stuck {
            seed,
            at_ns: self.last_time / NS,
            trace_hash: self.trace_hash,
            threads: self.waiting_threads(),
        }
    }

    pub(super) fn waiting_threads(&self) -> Vec<WaitingThread> {
        (0..self.threads.len())
            .filter(|number| self.threads[*number].state != ThreadState::Over)
            .map(|number| WaitingThread {
                name: self.threads[number].name.clone(),
                waits_for: self.waits_for(number),
            })
            .collect()
    }

    fn waits_for(&self, number: usize) -> String {
        let thread = &self.threads[number];
        let text = match (thread.state, &thread.waited_at) {
            // Where it is says more than the word that it waits for.
            (ThreadState::Waiting { wait: Wait::Futex { .. }, since }, Some(waited_at)) => {
                format!("waits since {} ns{waited_at}", since / NS)
            }
            (ThreadState::Waiting { .. }, Some(waited_at)) => {
                format!("{}{waited_at}", self.does(number))
            }
            _ => self.does(number),
        };
        match self.item_of(number) {
            Some(item) => format!("is inside item {item} and {text}"),
            None => text,
        }
    }

    fn does(&self, number: usize) -> String {
        let thread = &self.threads[number];
        match thread.state {
            ThreadState::Over => "is over".to_owned(),
            ThreadState::Runnable => match self.cpus[thread.cpu].spins_on.first() {
                Some(line) if self.cpus[thread.cpu].current == Some(number) => {
                    let name = self.name_of(*line);
                    format!("spins on {name}, on CPU {}", self.cpus[thread.cpu].id)
                }
                _ if self.cpus[thread.cpu].current == Some(number) => {
                    format!("runs on CPU {}", self.cpus[thread.cpu].id)
                }
                _ => format!("can run, and waits for CPU {}", self.cpus[thread.cpu].id),
            },
            ThreadState::Waiting { wait, since } => {
                let since = since / NS;
                match wait {
                    Wait::LockQueue { place, .. } => {
                        format!("spins since {since} ns for its turn at {}", self.name_of(place))
                    }
                    Wait::Woken => format!("sleeps since {since} ns, and was woken"),
                    Wait::Sleep => format!("sleeps since {since} ns"),
                    Wait::Item => format!("stands since {since} ns before an item"),
                    Wait::Hand => format!("lets others run since {since} ns"),
                    Wait::Join(other) => {
                        let other = &self.threads[other].name;
                        format!("waits since {since} ns for the end of {other:?}")
                    }
                    Wait::Futex { place, address, expected } => {
                        // SAFETY: the word's owner sleeps on it, so it is live, and it is a
                        // 32-bit atomic; nobody else runs.
                        let holds = unsafe { *(address as *const u32) };
                        let name = self.name_of(place);
                        format!(
                            "waits since {since} ns for a wake-up on {name}, which held \
                             {expected} then and holds {holds} now"
                        )
                    }
                }
            }
        }
    }

    fn name_of(&self, place: Place) -> String {
        self.recorder
            .as_ref()
            .and_then(|recorder| recorder.field_at(place))
            .unwrap_or_else(|| crate::report::bare_name(place))
    }
}

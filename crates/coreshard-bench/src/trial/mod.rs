//! Small programs that use a workqueue in the ways that break workqueues, and ledgers by which
//! others judge what came of it.
//!
//! They measure nothing. For a [`QueueTrial`] a seed decides everything: scope, variants, limits, who queues what where, and
//! what the items do (queue another, sleep, compute, keep a CPU for long). A [`Scenario`] uses one part of the workqueue
//! in a way that is the same each time, for sweeps in which one call after the other fails. The ledgers are kept
//! with plain atomics of the language, apart from all that they judge.

mod cancels;
mod ledger;
mod programs;
mod promise;
mod queue_trial;
mod record;
mod scenario;
mod stage;
mod teams;
mod under_lock;

pub use ledger::Ledger;
pub use queue_trial::QueueTrial;
pub use record::{Bomb, Record};
pub use scenario::{ParseScenarioError, Scenario, ScenarioTrial};

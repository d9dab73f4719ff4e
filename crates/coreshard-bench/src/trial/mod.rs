//! Small programs that use a workqueue in ways that tend to break workqueues, and ledgers to judge the
//! outcome.
//!
//! They measure nothing. In a [`QueueTrial`] a seed decides everything: scope, variants, limits, which
//! producer queues what where, and the items' work (queue another, sleep, compute, occupy a CPU for long). A
//! [`Scenario`] uses one part of the workqueue in the same way each time, for sweeps that let one call after the other
//! fail. The ledgers use the language's plain atomics, and are separate from the code that they judge.

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

//! Advice on kernel settings: which settings of workqueues, interrupts and block queues to change, and why.
//!
//! There are three steps, each with plain data. [`Facts::read`] reads [`Facts`] from a tree of `/sys` and `/proc`, of
//! this machine or a recorded one. [`measure`] observes the workqueues for a while. [`judge`] applies [`RULES`] to both
//! and returns [`Finding`]s. [`emit`] formats the changes as configuration.
//!
//! This crate changes no settings, prints nothing and does not simulate. A caller that ran a simulation adds its result
//! to a finding ([`Finding::check_against`]).
//!
//! ```
//! use coreshard_advise::{Facts, KernelVersion, Verdict, judge};
//! use coreshard_topology::Topology;
//!
//! // 72 cores behind one cache, with the settings that Linux 7.1 starts with.
//! let machine = Topology::from_synthetic("pack:1 numa:1 l3:1 core:72 pu:1")?;
//! let mut facts = Facts::assumed(machine, "7.1".parse::<KernelVersion>()?);
//! let scope = |facts: &Facts| judge(facts, None).into_iter().find(|it| it.rule.id == "default-scope").unwrap();
//! assert_eq!(scope(&facts).verdict, Verdict::Leave);
//!
//! // An operator chose one pool for all of them.
//! facts.workqueues.default_scope = Some("cache".parse()?);
//! assert_eq!(scope(&facts).verdict, Verdict::Change);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![doc(html_root_url = "https://docs.rs/coreshard-advise/0.1.0")]

pub mod emit;
mod facts;
pub mod measure;
mod rules;
mod tree;

pub use facts::{
    BlockFacts, Facts, InterruptFacts, IsolationFacts, KernelFacts, KernelVersion, MaskFacts,
    NetworkFacts, ParseSettingError, RealtimeFacts, ScopeSetting, WorkqueueFacts,
    WorkqueueSettings,
};
pub use rules::{Expected, Finding, RULES, Rule, Setting, Simulated, Verdict, judge};

#[cfg(test)]
testing::watch!();

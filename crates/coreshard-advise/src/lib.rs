//! Advice for whoever runs a machine: how the kernel's workqueues, interrupts and block queues are set, what of it to
//! change, and why.
//!
//! Three steps, each plain data: [`Facts`] are read from a tree of `/sys` and `/proc` ([`Facts::read`]), from this
//! machine's or from a recorded one; [`measure`] says what the workqueues did meanwhile; [`judge`] holds both against
//! [`RULES`] and gives a [`Finding`] for each thing that a rule has something to say of. [`emit`] writes what is to be
//! changed in the forms that machines are set by.
//!
//! Nothing here changes a setting, prints, or knows a simulated machine: a check against one is put into a finding by whoever
//! ran it ([`Finding::check_against`]).
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
//! // Somebody went back to one pool for all of them.
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

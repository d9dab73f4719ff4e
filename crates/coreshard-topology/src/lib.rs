//! CPUs, caches and NUMA nodes of a machine, and the pods of each affinity scope.
//!
//! This crate is pure data. A [`Topology`] is read once: from the machine this runs on ([`Topology::host`]), a recorded
//! `/sys` ([`Topology::from_sysfs`]), an hwloc XML file ([`Topology::from_hwloc_xml`]), a description
//! ([`Topology::from_synthetic`]) or a name ([`Topology::preset`]). [`Pods`] divides its CPUs by a [`Scope`]. Nothing
//! here starts a thread, sets an affinity or prints.
//!
//! ```
//! use coreshard_topology::{Pods, Scope, ShardSize, Topology};
//!
//! let machine = Topology::from_synthetic("pack:1 l3:1 core:36 pu:1")?;
//! let shards = Pods::new(&machine, machine.online(), Scope::CacheShard, ShardSize::DEFAULT)?;
//! let layout: Vec<String> = shards.iter().map(ToString::to_string).collect();
//! assert_eq!(layout, ["0 0-7", "1 8-14", "2 15-21", "3 22-28", "4 29-35"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | for |
//! |---|---|
//! | `presets` | machines known by name: [`Preset`], [`Topology::preset`], [`Topology::parse_machine`] |
//! | `hwloc` | the XML files of hwloc: [`Topology::from_hwloc_xml`] |

#![warn(missing_debug_implementations)]
#![doc(html_root_url = "https://docs.rs/coreshard-topology/0.1.0")]
#![forbid(unsafe_code)]

mod cgroup;
mod cpuset;
mod error;
#[cfg(feature = "hwloc")]
mod hwloc_xml;
mod id;
pub mod input;
mod pods;
#[cfg(feature = "presets")]
mod preset;
mod readable;
mod scope;
mod shard;
mod sources;
mod synthetic;
mod sysfs;
mod topology;
mod usable;

pub use cgroup::{CgroupCpuset, CpuQuota};
pub use cpuset::{CpuSet, Iter, MAX_CPU, ParseCpuSetError};
pub use error::TopologyError;
pub use id::{CoreId, CpuId, LlcId, NodeId, PackageId, PodId};
pub use pods::{Pod, Pods, PodsError};
#[cfg(feature = "presets")]
pub use preset::Preset;
#[doc(hidden)]
pub use readable::readable;
pub use scope::{ParseNameError, ParseScopeError, Scope};
pub use shard::ShardSize;
pub use topology::{Cpu, CpuKind, Llc, Topology};
pub use usable::Usable;

#[cfg(test)]
testing::watch!();

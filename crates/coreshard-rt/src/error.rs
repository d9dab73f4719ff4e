//! What can be wrong with what a caller asks for. Each sentence names the thing, what was given, and
//! what is allowed.

use std::fmt;

use coreshard_topology::CpuSet;

/// Why something cannot be had as asked for.
#[derive(Debug)]
pub struct RtError {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Priority { given: u8 },
    TooManyCpus { given: usize, most: usize },
    NoCpu,
    OutsideCpus { given: CpuSet, allowed: CpuSet },
    Rung { given: String },
}

impl RtError {
    pub(crate) fn priority(given: u8) -> Self {
        Self { kind: Kind::Priority { given } }
    }

    pub(crate) fn too_many_cpus(given: usize, most: usize) -> Self {
        Self { kind: Kind::TooManyCpus { given, most } }
    }

    pub(crate) fn no_cpu() -> Self {
        Self { kind: Kind::NoCpu }
    }

    pub(crate) fn outside_cpus(given: &CpuSet, allowed: &CpuSet) -> Self {
        Self { kind: Kind::OutsideCpus { given: given.clone(), allowed: allowed.clone() } }
    }

    pub(crate) fn rung(given: &str) -> Self {
        Self { kind: Kind::Rung { given: given.to_owned() } }
    }
}

impl fmt::Display for RtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Priority { given } => {
                write!(f, "the priority {given} is not allowed; allowed are 1 to 99")
            }
            Kind::TooManyCpus { given, most } => {
                write!(f, "{given} CPUs are too many for a priority index; allowed are 1 to {most}")
            }
            Kind::NoCpu => f.write_str("the set of allowed CPUs is empty; at least one is needed"),
            Kind::OutsideCpus { given, allowed } => {
                write!(f, "CPUs {given} are not among the allowed ones, which are {allowed}")
            }
            Kind::Rung { given } => {
                write!(
                    f,
                    "{given:?} is no rung of the priority index; \
                     there are packed, padded, split and per-llc"
                )
            }
        }
    }
}

impl std::error::Error for RtError {}

//! On which node the state of devices lies.

use std::fmt;
use std::str::FromStr;

use coreshard_topology::{ParseNameError, input::quoted};

/// Where the state of hosts, targets, devices and queues is allocated, the oldest variant
/// first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceMemory {
    /// On whichever node the thread runs that makes it, as Linux' SCSI scan had it.
    AnyNode,
    /// On the host's node, where that is known.
    #[default]
    NodeLocal,
}

impl DeviceMemory {
    /// All variants, the oldest first.
    pub const ALL: [Self; 2] = [Self::AnyNode, Self::NodeLocal];
}

impl fmt::Display for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AnyNode => "any-node",
            Self::NodeLocal => "node-local",
        })
    }
}

/// Why a text is no [`DeviceMemory`].
pub type ParseDeviceMemoryError = ParseNameError;

impl FromStr for DeviceMemory {
    type Err = ParseDeviceMemoryError;

    fn from_str(text: &str) -> Result<Self, ParseDeviceMemoryError> {
        let found = Self::ALL.into_iter().find(|memory| memory.to_string() == text);
        let names = "any-node and node-local";
        found.ok_or_else(|| {
            ParseNameError::new(format!("{} is no device memory; there are {names}", quoted(text)))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_rungs_are_read_as_they_are_written() {
        for memory in DeviceMemory::ALL {
            assert_eq!(memory.to_string().parse(), Ok(memory));
        }
        assert!("local".parse::<DeviceMemory>().unwrap_err().to_string().contains("node-local"));
    }
}

//! Newtypes for the numbers of a machine's parts.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the number as a table index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The noun in messages, such as `"CPU"`.
            pub const WORD: &str = $word;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<u32> for $name {
            fn from(number: u32) -> Self {
                Self(number)
            }
        }
    };
}

id!(
    /// A hardware thread, by kernel number (`/sys/devices/system/cpu/cpuN`). Numbers may be sparse.
    CpuId,
    "CPU"
);
id!(
    /// A core: an SMT group of CPUs. Numbers are dense over the whole machine, in the order of each core's lowest CPU.
    /// The kernel's `core_id` restarts in each package.
    CoreId,
    "core"
);
id!(
    /// A last-level cache. Numbers are dense over the whole machine, in the order of each cache's lowest CPU.
    LlcId,
    "LLC"
);
id!(
    /// A NUMA node, by kernel number (`/sys/devices/system/node/nodeN`), as `mbind` takes it. Numbers may be sparse.
    NodeId,
    "node"
);
id!(
    /// A package (socket). Numbers are dense over the whole machine, in the order of each package's lowest CPU.
    PackageId,
    "package"
);
id!(
    /// A pod: the CPUs that share one pool. Numbers are dense within one [`Pods`](crate::Pods).
    PodId,
    "pod"
);

//! Newtypes for the numbers that name parts of a machine.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index into a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The word that stands for this kind of thing in messages, such as `"CPU"`.
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
    /// A hardware thread, by the kernel's number (`/sys/devices/system/cpu/cpuN`). Numbers may be sparse.
    CpuId,
    "CPU"
);
id!(
    /// A core: an SMT group of CPUs. Dense over the whole machine and counted in the order of each
    /// core's lowest CPU, unlike the kernel's `core_id`, which starts anew in each package.
    CoreId,
    "core"
);
id!(
    /// A last-level cache. Dense over the whole machine, in the order of each cache's lowest CPU.
    LlcId,
    "LLC"
);
id!(
    /// A NUMA node, by the kernel's number (`/sys/devices/system/node/nodeN`), so that it can be
    /// handed to `mbind`. Numbers may be sparse.
    NodeId,
    "node"
);
id!(
    /// A package (socket). Dense over the whole machine, in the order of each package's lowest CPU.
    PackageId,
    "package"
);
id!(
    /// A pod: the CPUs that share one pool. Dense within one [`Pods`](crate::Pods).
    PodId,
    "pod"
);

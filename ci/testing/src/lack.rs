//! What a machine may lack, by the names that `CORESHARD_REQUIRE` has for it.

use std::fmt;

macro_rules! lacks {
    ($($(#[doc = $what:literal])+ $lack:ident = $name:literal,)+) => {
        /// What a test needs and not every machine has. ci/test.sh asks its machine for most of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Lack {
            $($(#[doc = $what])+ $lack,)+
        }

        impl Lack {
            /// All there are.
            pub const ALL: &[Self] = &[$(Self::$lack),+];

            /// As `CORESHARD_REQUIRE` and the list of skips have it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$lack => $name,)+
                }
            }
        }
    };
}

lacks! {
    /// io_uring, which a sandbox may forbid.
    IoUring = "io_uring",
    /// A ring that polls its device.
    Iopoll = "iopoll",
    /// A build folder on a disk that direct I/O reaches: not in memory.
    Disk = "disk",
    /// Seccomp filters, by which a test has system calls fail.
    Seccomp = "seccomp",
    /// A user namespace in which a file system can be mounted.
    Mount = "mount",
    /// The kernel's tracing file system with workqueues' events, which this user may mount.
    Tracefs = "tracefs",
    /// Loop devices.
    Loop = "loop",
    /// The tools of ext4.
    Ext4 = "ext4",
    /// fio's tools, with the modules that they need.
    Fio = "fio",
    /// taskset(1).
    Taskset = "taskset",
    /// b3sum, sha256sum.
    HashTools = "hash_tools",
    /// Control groups that this user may make, with quotas.
    Cgroup = "cgroup",
    /// To be root.
    Root = "root",
    /// Real-time priorities.
    Rt = "rt",
    /// To be asked for with `CORESHARD_RT_THROTTLE=1`, since it takes a CPU from all others for seconds.
    RtThrottle = "rt_throttle",
    /// Limits on priorities and on locked memory that bind those without privilege.
    Rlimit = "rlimit",
    /// membarrier(2).
    Membarrier = "membarrier",
    /// Threads in a process that was forked with threads, which not every emulator has.
    ForkedThreads = "forked_threads",
    /// The kernel's types, in /sys/kernel/btf/vmlinux.
    Btf = "btf",
    /// Debug information in the test itself, which a release build has not.
    DebugInfo = "debug_info",
    /// QEMU's user emulation, with plugins.
    Qemu = "qemu",
    /// tuned, which applies profiles of settings.
    Tuned = "tuned",
    /// udevadm(8), and a device for its rules.
    Udev = "udev",
    /// A C compiler for aarch64, with its C library.
    ArmCompiler = "arm_compiler",
    /// A C compiler, `cc`.
    CCompiler = "c_compiler",
    /// A C++ compiler, `c++`.
    CppCompiler = "cpp_compiler",
    /// A Go compiler, `go`.
    Go = "go",
    /// dwp(1), which puts the debug information of many files into one.
    Dwp = "dwp",
    /// llvm-dwp(1), which does so for DWARF 5.
    LlvmDwp = "llvm_dwp",
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

//! Features that a machine may lack, by their names in `CORESHARD_REQUIRE`.

use std::fmt;

macro_rules! lacks {
    ($($(#[doc = $what:literal])+ $lack:ident = $name:literal,)+) => {
        /// Features that a test needs and not every machine has. ci/test.sh checks for most of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Lack {
            $($(#[doc = $what])+ $lack,)+
        }

        impl Lack {
            /// All features.
            pub const ALL: &[Self] = &[$(Self::$lack),+];

            /// The name in `CORESHARD_REQUIRE` and in the list of skips.
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
    /// Seccomp filters, which tests use to make system calls fail.
    Seccomp = "seccomp",
    /// A user namespace that can mount a file system.
    Mount = "mount",
    /// The kernel's tracing file system with workqueues' events, which this user may mount.
    Tracefs = "tracefs",
    /// Loop devices.
    Loop = "loop",
    /// The tools of ext4.
    Ext4 = "ext4",
    /// fio's tools, with the modules that they need.
    Fio = "fio",
    /// A kernel's image to boot, which `CORESHARD_KERNEL_IMAGE` names, and `qemu-system-x86_64` to boot it.
    Kernel = "kernel",
    /// taskset(1).
    Taskset = "taskset",
    /// b3sum, sha256sum.
    HashTools = "hash_tools",
    /// Control groups with quotas that this user may create.
    Cgroup = "cgroup",
    /// The user root.
    Root = "root",
    /// Real-time priorities.
    Rt = "rt",
    /// Real-time throttling. Only enabled by `CORESHARD_RT_THROTTLE=1`, since the test occupies a CPU for seconds.
    RtThrottle = "rt_throttle",
    /// Limits on priorities and on locked memory that apply to processes without privilege.
    Rlimit = "rlimit",
    /// membarrier(2).
    Membarrier = "membarrier",
    /// Threads in a process that was forked while it had threads; not every emulator supports them.
    ForkedThreads = "forked_threads",
    /// The kernel's types, in /sys/kernel/btf/vmlinux.
    Btf = "btf",
    /// Debug information in the test program, which a release build lacks.
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

//! Hosts, targets and devices: the shared state, and where it lies.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, fs};

use coreshard_platform::{AtomicInt, ForkHook, Padded, Placement, Platform};
use coreshard_topology::input::quoted;
use coreshard_topology::{NodeId, ParseNameError};

use crate::backend::{Backend, Geometry};
use crate::counters::{CounterLayout, Counts, DeviceCounters};
use crate::node_slice::NodeSlice;
use crate::open_error::OpenError;
use crate::tags::{TagPolicy, TagSet, TagSetSpec, TagUser};

/// The most threads of a host that may have queues. Each device has counters and a flag for each.
pub const MAX_THREADS: usize = 1 << 16;

/// Options of a [`HostAdapter`].
///
/// Use `..HostOptions::default()` for the remaining fields; later versions may add some.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The name used in messages. Default: `host0`.
    pub name: String,
    /// The adapter's NUMA node, see [`node_of_file`](crate::node_of_file); often unknown. Default: unknown.
    pub node: Option<NodeId>,
    /// Where its state is allocated. Default: [`DeviceMemory::default`].
    pub memory: DeviceMemory,
    /// The number of tags that all of its devices share. Default: 128.
    pub depth: u32,
    /// How tags are accounted. Default: [`TagPolicy::default`].
    pub tags: TagPolicy,
    /// How devices' counters are laid out. Default: [`CounterLayout::default`].
    pub counters: CounterLayout,
    /// The number of threads that will have queues, at most one queue per device each; at most
    /// [`MAX_THREADS`]. Default: 1.
    pub threads: usize,
    /// How long a device without requests keeps its share of the tags. Default: 5 s.
    pub grace: Duration,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            name: "host0".to_owned(),
            node: None,
            memory: DeviceMemory::default(),
            depth: 128,
            tags: TagPolicy::default(),
            counters: CounterLayout::default(),
            threads: 1,
            grace: Duration::from_secs(5),
        }
    }
}

impl HostOptions {
    fn state_node(&self) -> Option<NodeId> {
        match self.memory {
            DeviceMemory::AnyNode => None,
            DeviceMemory::NodeLocal => self.node,
        }
    }
}

/// An adapter: the tags that its devices share, and where their state lies.
#[derive(Debug)]
pub struct HostAdapter<P: Platform> {
    options: HostOptions,
    tags: Arc<TagSet<P>>,
}

impl<P: Platform> HostAdapter<P> {
    /// Creates a host without targets.
    ///
    /// # Errors
    /// If the depth is out of range, or there is not enough memory.
    pub fn new(options: HostOptions) -> Result<Arc<Self>, OpenError> {
        if options.threads > MAX_THREADS {
            return Err(OpenError::new(format!(
                "{}: invalid number of threads {}: expected at most {MAX_THREADS}",
                options.name, options.threads
            )));
        }
        let spec = TagSetSpec {
            depth: options.depth,
            policy: options.tags,
            threads: options.threads as u32,
            node: options.state_node(),
            grace: options.grace,
            ..TagSetSpec::default()
        };
        Ok(Arc::new(Self { tags: Arc::new(TagSet::new(spec)?), options }))
    }

    /// Returns the options.
    pub fn options(&self) -> &HostOptions {
        &self.options
    }

    /// Returns the tags.
    pub fn tags(&self) -> &Arc<TagSet<P>> {
        &self.tags
    }

    /// Creates a target.
    pub fn target(self: &Arc<Self>, name: &str) -> Arc<Target<P>> {
        self.make_target(name, None)
    }

    /// Creates a target whose devices together have at most `max_in_flight` requests in flight, such as an
    /// enclosure behind a narrow link.
    ///
    /// They share this limit as the host's devices share its tags, by the same policy.
    ///
    /// # Errors
    /// If the limit is 0 or more than [`MAX_TAGS`](crate::MAX_TAGS), or there is not enough memory.
    pub fn target_with_limit(
        self: &Arc<Self>,
        name: &str,
        max_in_flight: u32,
    ) -> Result<Arc<Target<P>>, OpenError> {
        let spec = TagSetSpec { depth: max_in_flight, reserved: 0, ..*self.tags.spec() };
        Ok(self.make_target(name, Some(Arc::new(TagSet::new(spec)?))))
    }

    fn make_target(self: &Arc<Self>, name: &str, limit: Option<Arc<TagSet<P>>>) -> Arc<Target<P>> {
        let online = Padded::new(P::AtomicU32::new(1));
        Arc::new(Target { host: Arc::clone(self), name: name.to_owned(), online, limit })
    }
}

/// A group of devices that are attached and removed together, such as an enclosure or a controller.
pub struct Target<P: Platform> {
    host: Arc<HostAdapter<P>>,
    name: String,
    online: Padded<P::AtomicU32>,
    /// The tags that its devices share. `None` without a limit; then requests touch only the target's
    /// `online` line, which they read.
    pub(crate) limit: Option<Arc<TagSet<P>>>,
}

impl<P: Platform> Target<P> {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the host.
    pub fn host(&self) -> &Arc<HostAdapter<P>> {
        &self.host
    }

    /// Returns the most requests that its devices together may have in flight, if the target has its own
    /// limit.
    pub fn limit(&self) -> Option<u32> {
        self.limit.as_ref().map(|limit| limit.spec().depth)
    }

    /// Takes all of its devices offline.
    pub fn set_offline(&self) {
        self.online.store(0, Release);
    }

    /// Creates a device on `backend`.
    ///
    /// # Errors
    /// If there is not enough memory for its state.
    pub fn device(
        self: &Arc<Self>,
        backend: Arc<dyn Backend<P>>,
    ) -> Result<Arc<Device<P>>, OpenError> {
        let options = &self.host.options;
        let node = options.state_node();
        let state = NodeSlice::new::<P>(1, node, |_| {
            Padded::new(DeviceState { online: P::AtomicU32::new(1), forked: P::AtomicU32::new(0) })
        })?;
        let counters = DeviceCounters::new(options.counters, options.threads, node)?;
        let user = self.host.tags.add_user_on(node)?;
        let target_user = self.limit.as_ref().map(|limit| limit.add_user_on(node)).transpose()?;
        let geometry = backend.geometry();
        let counters = Arc::new(counters);
        let device = Arc::new(Device {
            target: Arc::clone(self),
            backend,
            geometry,
            state,
            counters,
            user,
            target_user,
        });
        let hook: Weak<Device<P>> = Arc::downgrade(&device);
        P::on_fork(hook);
        Ok(device)
    }
}

impl<P: Platform> fmt::Debug for Target<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct DeviceState<P: Platform> {
    online: P::AtomicU32,
    /// 1 in a process that was forked from the device's: the queues belong to the parent.
    forked: P::AtomicU32,
}

/// A device to read and write: one queue per thread, and the state that queues share.
pub struct Device<P: Platform> {
    target: Arc<Target<P>>,
    pub(crate) backend: Arc<dyn Backend<P>>,
    geometry: Geometry,
    state: NodeSlice<Padded<DeviceState<P>>>,
    pub(crate) counters: Arc<DeviceCounters<P>>,
    pub(crate) user: TagUser<P>,
    /// `None` if its target has no limit.
    pub(crate) target_user: Option<TagUser<P>>,
}

impl<P: Platform> Device<P> {
    /// Returns the name used in messages.
    pub fn name(&self) -> &str {
        self.backend.name()
    }

    /// Returns the size and alignments.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the target.
    pub fn target(&self) -> &Arc<Target<P>> {
        &self.target
    }

    /// Returns where its state lies.
    pub fn placement(&self) -> &Placement {
        self.state.placement()
    }

    /// Returns the counts of its requests so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Returns whether it accepts requests.
    pub fn is_online(&self) -> bool {
        self.state[0].online.load(Acquire) != 0 && self.target.online.load(Acquire) != 0
    }

    /// Takes the device offline.
    ///
    /// Waiting requests fail when their queue is polled next, and their payload is returned. Requests at the
    /// device are waited for.
    pub fn set_offline(&self) {
        self.state[0].online.store(0, Release);
    }

    /// Returns true in a process that was forked from the device's.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        self.state[0].forked.load(Relaxed) != 0
    }
}

impl<P: Platform> ForkHook for Device<P> {
    fn forked(&self) {
        self.state[0].forked.store(1, Relaxed);
        self.set_offline();
    }
}

impl<P: Platform> fmt::Debug for Device<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("backend", &self.backend)
            .field("online", &self.is_online())
            .field("counts", &self.counts())
            .finish()
    }
}

/// Where the state of hosts, targets, devices and queues is allocated. The oldest variant comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DeviceMemory {
    /// On the node of the thread that creates it, as in Linux' SCSI scan.
    AnyNode,
    /// On the host's node, if it is known.
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

/// The error when a text does not name a [`DeviceMemory`].
pub type ParseDeviceMemoryError = ParseNameError;

impl FromStr for DeviceMemory {
    type Err = ParseDeviceMemoryError;

    fn from_str(text: &str) -> Result<Self, ParseDeviceMemoryError> {
        let found = Self::ALL.into_iter().find(|memory| memory.to_string() == text);
        let names = "any-node or node-local";
        found.ok_or_else(|| {
            ParseNameError::new(format!("invalid device memory {}: expected {names}", quoted(text)))
        })
    }
}

/// Returns the node of the adapter behind a file or block device, according to sysfs.
///
/// Returns `None` if sysfs says −1 or nothing, as on most machines with one node and for files in memory.
pub fn node_of_file(path: &Path) -> Option<NodeId> {
    node_of_file_in(Path::new("/sys"), path)
}

fn node_of_file_in(sys: &Path, path: &Path) -> Option<NodeId> {
    let metadata = fs::metadata(path).ok()?;
    let number = if metadata.rdev() != 0 { metadata.rdev() } else { metadata.dev() };
    let (major, minor) = (libc::major(number), libc::minor(number));
    let mut folder = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    // A partition's folder is inside its disk's, and a disk's inside its adapter's. The nearest one that
    // knows its node is used.
    loop {
        for name in ["numa_node", "device/numa_node"] {
            if let Ok(text) = fs::read_to_string(folder.join(name)) {
                return text.trim().parse::<u32>().ok().map(NodeId);
            }
        }
        if !folder.pop() || !folder.starts_with(sys) {
            return None;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn memory_variants_are_read_as_they_are_written() {
        for memory in DeviceMemory::ALL {
            assert_eq!(memory.to_string().parse(), Ok(memory));
        }
        assert!("local".parse::<DeviceMemory>().unwrap_err().to_string().contains("node-local"));
    }

    #[test]
    fn a_node_is_found_above_the_disk_and_minus_one_is_none() {
        let sys = tempfile::tempdir().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let number = file.as_file().metadata().unwrap().dev();
        let link = format!("{}:{}", libc::major(number), libc::minor(number));
        let sys = fs::canonicalize(sys.path()).unwrap();
        assert_eq!(node_of_file_in(&sys, file.path()), None, "sysfs says nothing");
        let partition = sys.join("devices/pci0/nvme0/block/disk/part1");
        fs::create_dir_all(&partition).unwrap();
        fs::create_dir_all(sys.join("dev/block")).unwrap();
        std::os::unix::fs::symlink(&partition, sys.join("dev/block").join(link)).unwrap();
        fs::write(sys.join("devices/pci0/numa_node"), "1\n").unwrap();
        assert_eq!(node_of_file_in(&sys, file.path()), Some(NodeId(1)));
        fs::write(sys.join("devices/pci0/nvme0/numa_node"), "-1\n").unwrap();
        assert_eq!(node_of_file_in(&sys, file.path()), None, "-1 is unknown");
        assert_eq!(node_of_file(Path::new("/no/such/file")), None);
    }
}

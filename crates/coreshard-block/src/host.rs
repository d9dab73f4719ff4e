//! Hosts, targets and devices: what is shared, and where it lies.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use coreshard_platform::{AtomicInt, Padded, Placement, Platform};
use coreshard_topology::{NodeId, input::quoted};

use crate::backend::{Backend, Geometry};
use crate::counters::{CounterLayout, Counts, DeviceCounters};
use crate::error::{OpenError, OpenErrorKind};
use crate::node_slice::NodeSlice;
use crate::queue::{Queue, QueueOptions};
use crate::tags::{TagPolicy, TagSet, TagSetSpec, TagUser};

/// Where the state of hosts, targets, devices and queues is allocated: a ladder, the oldest rung
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
    /// All rungs, the oldest first.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDeviceMemoryError {
    /// As it is shown: in quotes, shortened.
    given: String,
}

impl fmt::Display for ParseDeviceMemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no device memory; there are any-node and node-local", self.given)
    }
}

impl std::error::Error for ParseDeviceMemoryError {}

impl FromStr for DeviceMemory {
    type Err = ParseDeviceMemoryError;

    fn from_str(text: &str) -> Result<Self, ParseDeviceMemoryError> {
        Self::ALL
            .into_iter()
            .find(|memory| memory.to_string() == text)
            .ok_or_else(|| ParseDeviceMemoryError { given: quoted(text).to_string() })
    }
}

/// What a [`HostAdapter`] is to be.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Its name in messages.
    pub name: String,
    /// The node of the adapter, see [`node_of_file`]; `None` where it is unknown, which is a
    /// normal case.
    pub node: Option<NodeId>,
    /// Where state is allocated.
    pub memory: DeviceMemory,
    /// Tags that all of its devices share.
    pub depth: u32,
    /// How tags are accounted.
    pub tags: TagPolicy,
    /// How devices' counters lie.
    pub counters: CounterLayout,
    /// Threads that will have queues, each one a device at most.
    pub threads: usize,
    /// How long a device without requests keeps its share of the tags.
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

/// The node of the adapter behind a file or block device, as sysfs has it; `None` where sysfs says
/// −1 or nothing, as on most machines with one node and for files in memory.
pub fn node_of_file(path: &Path) -> Option<NodeId> {
    node_of_file_in(Path::new("/sys"), path)
}

fn node_of_file_in(sys: &Path, path: &Path) -> Option<NodeId> {
    let metadata = fs::metadata(path).ok()?;
    let number = if metadata.rdev() != 0 { metadata.rdev() } else { metadata.dev() };
    let (major, minor) = (libc::major(number), libc::minor(number));
    let mut folder = fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}"))).ok()?;
    // A partition lies in its disk's folder, and a disk in its adapter's; the nearest one that
    // knows its node is asked.
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

/// An adapter: the tags that its devices share, and where state lies.
pub struct HostAdapter<P: Platform> {
    options: HostOptions,
    tags: Arc<TagSet<P>>,
}

impl<P: Platform> HostAdapter<P> {
    /// A host without targets.
    ///
    /// # Errors
    /// Where the depth is out of range, or there is no memory.
    pub fn new(options: HostOptions) -> Result<Arc<Self>, OpenError> {
        let spec = TagSetSpec {
            depth: options.depth,
            policy: options.tags,
            threads: u32::try_from(options.threads).unwrap_or(u32::MAX),
            node: options.state_node(),
            grace: options.grace,
            ..TagSetSpec::default()
        };
        Ok(Arc::new(Self { tags: Arc::new(TagSet::new(spec)?), options }))
    }

    /// What it is.
    pub fn options(&self) -> &HostOptions {
        &self.options
    }

    /// Its tags.
    pub fn tags(&self) -> &Arc<TagSet<P>> {
        &self.tags
    }

    /// A new target.
    pub fn target(self: &Arc<Self>, name: &str) -> Arc<Target<P>> {
        self.make_target(name, None)
    }

    /// A new target whose devices together have at most `most_in_flight` requests in flight, such as an
    /// enclosure behind a narrow link. They share that as the host's devices share its tags, by
    /// the same policy.
    ///
    /// # Errors
    /// Where the limit is 0 or more than [`MAX_TAGS`](crate::MAX_TAGS), or there is no memory.
    pub fn target_with_limit(
        self: &Arc<Self>,
        name: &str,
        most_in_flight: u32,
    ) -> Result<Arc<Target<P>>, OpenError> {
        let spec = TagSetSpec { depth: most_in_flight, reserved: 0, ..*self.tags.spec() };
        Ok(self.make_target(name, Some(Arc::new(TagSet::new(spec)?))))
    }

    fn make_target(self: &Arc<Self>, name: &str, limit: Option<Arc<TagSet<P>>>) -> Arc<Target<P>> {
        let online = Padded::new(P::AtomicU32::new(1));
        Arc::new(Target { host: Arc::clone(self), name: name.to_owned(), online, limit })
    }
}

impl<P: Platform> fmt::Debug for HostAdapter<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostAdapter")
            .field("options", &self.options)
            .field("tags", &self.tags)
            .finish()
    }
}

/// What devices have in common that come and go together, such as an enclosure or a controller.
pub struct Target<P: Platform> {
    host: Arc<HostAdapter<P>>,
    name: String,
    online: Padded<P::AtomicU32>,
    /// What its devices share of its own. `None` where it has no limit; then its requests touch no line
    /// of the target's but `online`, which they only read.
    pub(crate) limit: Option<Arc<TagSet<P>>>,
}

impl<P: Platform> Target<P> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its host.
    pub fn host(&self) -> &Arc<HostAdapter<P>> {
        &self.host
    }

    /// The most requests that its devices together have in flight, where it has a limit of its own.
    pub fn limit(&self) -> Option<u32> {
        self.limit.as_ref().map(|limit| limit.spec().depth)
    }

    /// Takes all of its devices offline.
    pub fn set_offline(&self) {
        self.online.store(0, Release);
    }

    /// A device on `backend`.
    ///
    /// # Errors
    /// Where there is no memory for its state.
    pub fn device(
        self: &Arc<Self>,
        backend: Arc<dyn Backend<P>>,
    ) -> Result<Arc<Device<P>>, OpenError> {
        let options = &self.host.options;
        let node = options.state_node();
        let state =
            NodeSlice::new::<P>(1, node, |_| Padded::new(State { online: P::AtomicU32::new(1) }))?;
        let counters = DeviceCounters::new(options.counters, options.threads, node)?;
        let user = self.host.tags.add_user_on(node)?;
        let target_user = self.limit.as_ref().map(|limit| limit.add_user_on(node)).transpose()?;
        let geometry = backend.geometry();
        let counters = Arc::new(counters);
        Ok(Arc::new(Device {
            target: Arc::clone(self),
            backend,
            geometry,
            state,
            counters,
            user,
            target_user,
        }))
    }
}

impl<P: Platform> fmt::Debug for Target<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State<P: Platform> {
    online: P::AtomicU32,
}

/// Something that can be read and written: one queue for each thread, and what they share.
pub struct Device<P: Platform> {
    target: Arc<Target<P>>,
    backend: Arc<dyn Backend<P>>,
    geometry: Geometry,
    state: NodeSlice<Padded<State<P>>>,
    counters: Arc<DeviceCounters<P>>,
    user: TagUser<P>,
    /// Where its target has a limit.
    target_user: Option<TagUser<P>>,
}

impl<P: Platform> Device<P> {
    /// What it is called in messages.
    pub fn name(&self) -> &str {
        self.backend.name()
    }

    /// What it is.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Its target.
    pub fn target(&self) -> &Arc<Target<P>> {
        &self.target
    }

    /// Where its state came to lie.
    pub fn placement(&self) -> &Placement {
        self.state.placement()
    }

    /// What happened to its requests so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Whether it takes requests.
    pub fn is_online(&self) -> bool {
        self.state[0].online.load(Acquire) != 0 && self.target.online.load(Acquire) != 0
    }

    /// Takes it offline: what waits fails, with its payload handed back, when its queue is polled
    /// next; what the device has is waited for.
    pub fn set_offline(&self) {
        self.state[0].online.store(0, Release);
    }

    /// The queue of thread number `thread` (from 0 to below the host's `threads`), made on the
    /// thread that uses it, after it was pinned.
    ///
    /// # Errors
    /// Where that thread has a queue already, there is no such number, or the backend has no channel.
    pub fn queue(
        self: &Arc<Self>,
        thread: usize,
        options: QueueOptions,
    ) -> Result<Queue<P>, OpenError> {
        let threads = self.target.host.options.threads;
        let counters = self.counters.for_thread(thread).ok_or_else(|| {
            let name = self.name().to_owned();
            OpenError::new(OpenErrorKind::NoThread { name, thread, threads })
        })?;
        let tags = self.user.port();
        let target_tags = self.target_user.as_ref().map(TagUser::port);
        let depth = self.target.host.options.depth;
        let channel = self.backend.channel(depth.min(options.depth.max(1)))?;
        Ok(Queue::new(Arc::clone(self), channel, tags, target_tags, counters, options))
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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

    #[test]
    fn memory_rungs_are_read_as_they_are_written() {
        for memory in DeviceMemory::ALL {
            assert_eq!(memory.to_string().parse(), Ok(memory));
        }
        assert!("local".parse::<DeviceMemory>().unwrap_err().to_string().contains("node-local"));
    }
}

//! Objects that the kernel allocated from its caches, and its tasks' stacks, as its own structs describe them.

use std::collections::HashMap;

use super::KernelSymbols;
use super::memory::{DIRECT_MAP, GuestMemory, PAGE_MAP};
use super::structs::Structs;

/// Caches and tasks of one kernel; a damaged list may be a circle.
const MOST_CACHES: usize = 10_000;
const MOST_TASKS: usize = 1 << 20;
/// Pages of a slab, as a power of two.
const MOST_ORDER: u32 = 6;
const PAGE_BITS: u32 = 12;
/// Bytes of a `struct page`.
const PAGE_STRUCT_BYTES: u64 = 64;

/// A cache of objects of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    pub(super) name: String,
    /// From one object to the next.
    pub(super) stride: u64,
    /// Of one object.
    pub(super) object_bytes: u64,
    order: u32,
    /// Where an object has the address that it was allocated from, if the kernel may keep that (`slab_debug=U`).
    site: Option<u64>,
}

/// A slab object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlabObject<'a> {
    pub(super) start: u64,
    pub(super) cache: &'a Cache,
    /// The address after the call that allocated it, if the kernel keeps that.
    pub(super) allocated_at: Option<u64>,
}

/// All caches of a kernel, by the address of their struct.
pub(super) struct Slabs<'m> {
    memory: &'m GuestMemory,
    caches: HashMap<u64, Cache>,
    slab_cache: u64,
}

impl<'m> Slabs<'m> {
    /// Reads the kernel's list of caches.
    ///
    /// # Errors
    /// If its types or symbols lack what leads there.
    pub(super) fn of(
        memory: &'m GuestMemory,
        symbols: &KernelSymbols,
        structs: &Structs<'_>,
    ) -> Result<Self, String> {
        let head =
            symbols.address_of("slab_caches").ok_or("the kernel has no symbol slab_caches")?;
        let field = |name| structs.offset("kmem_cache", name);
        let (list, name) = (field("list")?, field("name")?);
        let (stride, object_bytes) = (field("size")?, field("object_size")?);
        let order = field("oo")?;
        let slab_cache = structs.offset("slab", "slab_cache")?;
        let tracks = Tracks::of(structs);
        let mut caches = HashMap::new();
        let mut at = memory.word(head);
        while let Some(entry) = at.filter(|at| *at != head && caches.len() < MOST_CACHES) {
            let start = entry.wrapping_sub(list);
            let one = || {
                Some(Cache {
                    name: memory.text(memory.word(start + name)?)?,
                    stride: u64::from(memory.half(start + stride)?).max(1),
                    object_bytes: u64::from(memory.half(start + object_bytes)?),
                    order: memory.half(start + order)? >> 16,
                    site: tracks.as_ref().and_then(|its| its.site(memory, start)),
                })
            };
            let Some(cache) = one() else { break };
            caches.insert(start, cache);
            at = memory.word(entry);
        }
        Ok(Self { memory, caches, slab_cache })
    }

    /// Returns the object that an address of the kernel's map of all memory lies in.
    pub(super) fn object_at(&self, address: u64) -> Option<SlabObject<'_>> {
        let page = address.checked_sub(DIRECT_MAP)? >> PAGE_BITS;
        // The first page of a slab is known by its cache, which also says how many pages there are.
        for order in 0..=MOST_ORDER {
            let first = page & !((1 << order) - 1);
            let place = PAGE_MAP + first * PAGE_STRUCT_BYTES + self.slab_cache;
            let Some(cache) = self.memory.word(place).and_then(|at| self.caches.get(&at)) else {
                continue;
            };
            let slab = DIRECT_MAP + (first << PAGE_BITS);
            if (page - first) >> cache.order.min(MOST_ORDER) != 0 {
                continue;
            }
            let start = slab + (address - slab) / cache.stride * cache.stride;
            let allocated_at = cache.site.and_then(|site| self.memory.word(start + site));
            return Some(SlabObject { start, cache, allocated_at });
        }
        None
    }
}

/// Where the kernel keeps who allocated an object: behind the object, and behind the link of a free one if the link lies there.
struct Tracks {
    size: u64,
    inuse: u64,
    link: u64,
    /// Of a track; an object has two.
    bytes: u64,
    site: u64,
}

impl Tracks {
    fn of(structs: &Structs<'_>) -> Option<Self> {
        let field = |name| structs.offset("kmem_cache", name).ok();
        Some(Self {
            size: field("size")?,
            inuse: field("inuse")?,
            link: field("offset")?,
            bytes: structs.types.size_bytes(structs.named("track")?)?,
            site: structs.offset("track", "addr").ok()?,
        })
    }

    /// Returns where an object has the address that it was allocated from, if it has room for two tracks.
    fn site(&self, memory: &GuestMemory, cache: u64) -> Option<u64> {
        let number = |at: u64| memory.half(cache + at).map(u64::from);
        let (inuse, link) = (number(self.inuse)?, number(self.link)?);
        let first = if link >= inuse { inuse + 8 } else { inuse };
        (first + 2 * self.bytes <= number(self.size)?).then_some(first + self.site)
    }
}

/// A task's stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskStack {
    pub(super) start: u64,
    pub(super) task: String,
}

/// Returns the stacks of all tasks that are there, by address.
///
/// # Errors
/// If the kernel's types or symbols lack what leads there.
pub(super) fn stacks(
    memory: &GuestMemory,
    symbols: &KernelSymbols,
    structs: &Structs<'_>,
) -> Result<Vec<TaskStack>, String> {
    let first = symbols.address_of("init_task").ok_or("the kernel has no symbol init_task")?;
    let field = |name| structs.offset("task_struct", name);
    let (tasks, stack, name, signal) =
        (field("tasks")?, field("stack")?, field("comm")?, field("signal")?);
    let (thread_node, thread_head) =
        (field("thread_node")?, structs.offset("signal_struct", "thread_head")?);
    let mut found = Vec::new();
    let mut note = |task: u64| {
        if let Some((start, task)) = memory.word(task + stack).zip(memory.text(task + name)) {
            found.push(TaskStack { start, task });
        }
    };
    let mut leader = first;
    for _ in 0..MOST_TASKS {
        note(leader);
        let head = memory.word(leader + signal).map(|signal| signal + thread_head);
        let mut at = head.and_then(|head| memory.word(head));
        let mut left = MOST_TASKS;
        while let (Some(node), Some(end)) = (at, head) {
            if node == end || left == 0 {
                break;
            }
            left -= 1;
            note(node.wrapping_sub(thread_node));
            at = memory.word(node);
        }
        match memory.word(leader + tasks).map(|next| next.wrapping_sub(tasks)) {
            Some(next) if next != first => leader = next,
            _ => break,
        }
    }
    found.sort_by_key(|its| its.start);
    found.dedup_by_key(|its| its.start);
    Ok(found)
}

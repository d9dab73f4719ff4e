//! Recognizes types that several threads are meant to write, atomics and locks, by their names.

use super::table::{MOST_STEPS, Shape, TypeId, TypeTable};

/// The role of a field, as the name of its type suggests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Plain data.
    #[default]
    Plain,
    /// A word that several CPUs modify.
    Atomic,
    /// A lock, a semaphore, or a wait queue.
    Lock,
}

/// The last parts of the names of atomics in the kernel, C, C++ and Rust.
const ATOMICS: &str = "atomic_t atomic64_t atomic_long_t refcount_t refcount_struct kref percpu_ref atomic_flag \
    AtomicBool AtomicU8 AtomicU16 AtomicU32 AtomicU64 AtomicUsize AtomicI8 AtomicI16 AtomicI32 \
    AtomicI64 AtomicIsize AtomicPtr AtomicU128 AtomicCell";

const LOCKS: &str = "spinlock_t spinlock raw_spinlock_t raw_spinlock arch_spinlock_t qspinlock rwlock_t mutex \
    rt_mutex rt_mutex_base rw_semaphore semaphore seqlock_t seqcount_t completion \
    wait_queue_head_t wait_queue_head percpu_rw_semaphore osq_lock optimistic_spin_queue \
    pthread_mutex_t pthread_rwlock_t pthread_cond_t pthread_spinlock_t pthread_barrier_t sem_t \
    Mutex RwLock Condvar shared_mutex RawMutex";

impl Role {
    /// Returns the role of a field of this type. An array has the role of its elements, and a struct with one member
    /// has the role of this member.
    #[must_use]
    pub fn of(types: &TypeTable, id: TypeId) -> Self {
        let mut at = id;
        for _ in 0..MOST_STEPS {
            let of = types.get(at);
            let role = of.name.as_deref().map_or(Self::Plain, role_of_name);
            if role != Self::Plain {
                return role;
            }
            let next = match &of.shape {
                Shape::Alias { is_atomic: true, .. } => return Self::Atomic,
                Shape::Alias { to, .. } => *to,
                Shape::Array { of, .. } => *of,
                Shape::Record(record) => match (&record.members[..], record.variants.is_empty()) {
                    ([only], true) => only.of,
                    _ => None,
                },
                _ => None,
            };
            let Some(next) = next else { break };
            at = next;
        }
        Self::Plain
    }
}

fn is_among(words: &str, name: &str) -> bool {
    words.split(' ').any(|word| word == name)
}

fn role_of_name(name: &str) -> Role {
    let (bare, parameters) = name.split_once('<').unwrap_or((name, ""));
    let last = bare.rsplit("::").next().unwrap_or(bare);
    let of_cpp = |word: &str| last == word && (bare.starts_with("std::") || bare == word);
    if is_among(ATOMICS, last)
        || bare.ends_with("sync::atomic::Atomic")
        || (!parameters.is_empty() && (of_cpp("atomic") || of_cpp("__atomic_base")))
    {
        Role::Atomic
    } else if is_among(LOCKS, last) {
        Role::Lock
    } else {
        Role::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_and_locks_are_known_by_name() {
        for (name, role) in [
            ("atomic_t", Role::Atomic),
            ("std::atomic<unsigned long>", Role::Atomic),
            ("core::sync::atomic::AtomicUsize", Role::Atomic),
            ("core::sync::atomic::Atomic<usize>", Role::Atomic),
            ("atomic_stats", Role::Plain),
            ("std::sync::poison::mutex::Mutex<u32>", Role::Lock),
            ("spinlock_t", Role::Lock),
            ("std::mutex", Role::Lock),
            ("unsigned int", Role::Plain),
        ] {
            assert_eq!(role_of_name(name), role, "{name}");
        }
    }
}

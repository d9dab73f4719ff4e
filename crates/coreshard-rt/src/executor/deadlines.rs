//! Which CPU's deadline is latest.

/// CPUs by the deadline of what they run, the latest first: a binary heap that knows where each CPU
/// stands in it, after the Linux kernel's `cpudl` (kernel/sched/cpudeadline.c). A CPU without a deadline
/// is later than all that have one.
///
/// ```
/// use coreshard_rt::DeadlineHeap;
///
/// let mut heap = DeadlineHeap::new(3);
/// (0..3).for_each(|cpu| heap.set(cpu, 100 + cpu as u64));
/// assert_eq!(heap.latest(), Some((2, 102)));
/// heap.set(2, 50);
/// assert_eq!(heap.latest(), Some((1, 101)));
/// ```
#[derive(Clone, Debug)]
pub struct DeadlineHeap {
    /// CPU and deadline.
    heap: Vec<(usize, u64)>,
    /// By CPU: its position in the heap.
    position_of: Vec<Option<usize>>,
}

impl DeadlineHeap {
    /// A heap for the CPUs 0 to `cpus` − 1, none of which is in it.
    pub fn new(cpus: usize) -> Self {
        Self { heap: Vec::with_capacity(cpus), position_of: vec![None; cpus] }
    }

    /// The CPU of the latest deadline, and that.
    pub fn latest(&self) -> Option<(usize, u64)> {
        self.heap.first().copied()
    }

    /// The deadline of a CPU; `None` where it has none, or the heap was not made for it.
    pub fn deadline(&self, cpu: usize) -> Option<u64> {
        self.position_of.get(cpu).copied().flatten().map(|position| self.heap[position].1)
    }

    /// Sets the deadline of a CPU, whether it had one or not. O(log CPUs).
    ///
    /// # Panics
    /// For a CPU that the heap was not made for.
    pub fn set(&mut self, cpu: usize, deadline: u64) {
        let position = match self.position_of[cpu] {
            Some(position) => {
                self.heap[position].1 = deadline;
                position
            }
            None => {
                self.heap.push((cpu, deadline));
                self.position_of[cpu] = Some(self.heap.len() - 1);
                self.heap.len() - 1
            }
        };
        let position = self.up(position);
        self.down(position);
    }

    /// Takes a CPU out, if it has a deadline.
    pub fn clear(&mut self, cpu: usize) {
        let Some(position) = self.position_of.get_mut(cpu).and_then(Option::take) else { return };
        self.heap.swap_remove(position);
        if let Some((moved, _)) = self.heap.get(position).copied() {
            self.position_of[moved] = Some(position);
            let position = self.up(position);
            self.down(position);
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for position in [one, other] {
            self.position_of[self.heap[position].0] = Some(position);
        }
    }

    fn up(&mut self, mut position: usize) -> usize {
        while position > 0 && self.heap[(position - 1) / 2].1 < self.heap[position].1 {
            self.swap(position, (position - 1) / 2);
            position = (position - 1) / 2;
        }
        position
    }

    fn down(&mut self, mut position: usize) {
        loop {
            let children = [2 * position + 1, 2 * position + 2].into_iter();
            let later =
                children.filter(|at| *at < self.heap.len()).max_by_key(|at| self.heap[*at].1);
            match later {
                Some(child) if self.heap[child].1 > self.heap[position].1 => {
                    self.swap(position, child);
                    position = child;
                }
                _ => return,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_heap_agrees_with_a_search_through_all() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut heap = DeadlineHeap::new(40);
        let mut oracle = vec![None; 40];
        for _ in 0..5_000 {
            let cpu = random.usize(..40);
            if random.u8(..4) == 0 {
                heap.clear(cpu);
                oracle[cpu] = None;
            } else {
                let deadline = random.u64(..1_000);
                heap.set(cpu, deadline);
                oracle[cpu] = Some(deadline);
            }
            assert_eq!(heap.latest().map(|it| it.1), oracle.iter().flatten().max().copied());
            assert!(heap.latest().is_none_or(|(cpu, deadline)| oracle[cpu] == Some(deadline)));
            assert!((0..40).all(|cpu| heap.deadline(cpu) == oracle[cpu]));
        }
    }
}

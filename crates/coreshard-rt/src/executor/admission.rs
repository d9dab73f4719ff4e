//! Admission control: which periodic tasks a CPU has room for.

/// The part of each CPU that is reserved for tasks with budgets.
///
/// Earliest deadline first meets all deadlines of a CPU if the sum of budget over deadline is at most 1, or
/// at most the part of the CPU that real-time threads may use (Liu and Layland, 1973, with densities if
/// deadlines are shorter than periods). A task goes to the CPU whose nearest deadline is the latest among
/// CPUs with room, as in the kernel's `cpudl`.
#[derive(Debug)]
pub(super) struct AdmissionControl {
    limit: f64,
    /// The sum of densities, by position.
    sums: Vec<f64>,
    /// The relative deadlines, by position, the nearest first.
    nearest: Vec<Vec<u64>>,
    heap: DeadlineHeap,
}

/// The least sum that a CPU would have with the task, and the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NoRoom {
    pub(super) sum: f64,
    pub(super) limit: f64,
}

/// Tolerance, since sums of many shares are inexact.
const ROUNDING: f64 = 1e-9;

impl AdmissionControl {
    pub(super) fn new(cpus: usize, limit: f64) -> Self {
        let mut heap = DeadlineHeap::new(cpus);
        (0..cpus).for_each(|position| heap.set(position, u64::MAX));
        Self { limit, sums: vec![0.0; cpus], nearest: vec![Vec::new(); cpus], heap }
    }

    /// Reserves `density` of a CPU among `positions` for a task with this relative deadline.
    pub(super) fn admit(
        &mut self,
        positions: &[usize],
        density: f64,
        deadline_ns: u64,
    ) -> Result<usize, NoRoom> {
        let fits = |position: &usize| self.sums[*position] + density <= self.limit + ROUNDING;
        // First the CPU with the latest deadline of all. If it has no room, the latest of those with room.
        let latest = self.heap.latest().map(|(position, _)| position);
        let chosen = latest
            .filter(|position| positions.contains(position) && fits(position))
            .or_else(|| {
                let with_room = positions.iter().copied().filter(|position| fits(position));
                with_room.max_by_key(|position| self.heap.deadline(*position))
            });
        let Some(position) = chosen else {
            let least =
                positions.iter().map(|position| self.sums[*position]).fold(f64::INFINITY, f64::min);
            return Err(NoRoom { sum: least + density, limit: self.limit });
        };
        self.sums[position] += density;
        let nearest = &mut self.nearest[position];
        nearest.insert(nearest.partition_point(|known| *known <= deadline_ns), deadline_ns);
        self.heap.set(position, self.nearest[position][0]);
        Ok(position)
    }

    /// Releases the reservation of a task that has ended.
    pub(super) fn release(&mut self, position: usize, density: f64, deadline_ns: u64) {
        self.sums[position] = (self.sums[position] - density).max(0.0);
        let nearest = &mut self.nearest[position];
        if let Some(at) = nearest.iter().position(|known| *known == deadline_ns) {
            nearest.remove(at);
        }
        self.heap.set(position, nearest.first().copied().unwrap_or(u64::MAX));
    }
}

/// CPUs ordered by the deadline of their running task, the latest first.
///
/// A binary heap that tracks each CPU's position, after the Linux kernel's `cpudl`
/// (kernel/sched/cpudeadline.c). A CPU without a deadline is later than all others.
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
    /// The position in the heap, by CPU.
    position_of: Vec<Option<usize>>,
}

impl DeadlineHeap {
    /// Creates a heap for the CPUs 0 to `cpus` − 1 without deadlines.
    pub fn new(cpus: usize) -> Self {
        Self { heap: Vec::with_capacity(cpus), position_of: vec![None; cpus] }
    }

    /// Returns the CPU with the latest deadline, and the deadline.
    pub fn latest(&self) -> Option<(usize, u64)> {
        self.heap.first().copied()
    }

    /// Returns the deadline of a CPU. Returns `None` if it has none, or if the heap was not created for it.
    pub fn deadline(&self, cpu: usize) -> Option<u64> {
        self.position_of.get(cpu).copied().flatten().map(|position| self.heap[position].1)
    }

    /// Sets the deadline of a CPU, whether it had one or not. O(log CPUs).
    ///
    /// # Panics
    /// If the heap was not created for this CPU.
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

    /// Removes a CPU's deadline, if it has one.
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
    fn tasks_go_to_the_cpu_of_the_latest_deadline_until_none_has_room() {
        let mut admitted = AdmissionControl::new(2, 0.95);
        let first = admitted.admit(&[0, 1], 0.6, 10).unwrap();
        let second = admitted.admit(&[0, 1], 0.5, 20).unwrap();
        assert_ne!(first, second);
        let refused = admitted.admit(&[0, 1], 0.5, 5).unwrap_err();
        assert!((refused.sum - 1.0).abs() < 1e-6 && refused.limit == 0.95, "{refused:?}");
        // The second CPU's deadline is later, and it has room.
        assert_eq!(admitted.admit(&[0, 1], 0.2, 5), Ok(second));
        // From now on the second CPU has the nearest deadline.
        assert_eq!(admitted.admit(&[0, 1], 0.2, 5), Ok(first));
        assert_eq!(admitted.admit(&[second], 0.2, 5), Ok(second));
        admitted.release(first, 0.6, 10);
        assert_eq!(admitted.admit(&[0, 1], 0.5, 5), Ok(first));
    }

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

//! Which periodic tasks a CPU has room for.

use super::deadlines::DeadlineHeap;

/// Admission control: what was promised of each CPU to tasks with budgets.
///
/// Earliest deadline first meets all deadlines of a CPU as long as the sum of budget over deadline is at
/// most 1 (Liu and Layland, 1973, with densities where deadlines are shorter than periods), or the part
/// of the CPU that real-time threads may use. Tasks are put onto the CPU whose nearest deadline is the
/// latest among those with room, as the kernel's `cpudl` has it.
#[derive(Debug)]
pub(super) struct AdmissionControl {
    limit: f64,
    /// By position: the sum of densities.
    sums: Vec<f64>,
    /// By position: the shortest relative deadlines, the nearest first.
    nearest: Vec<Vec<u64>>,
    heap: DeadlineHeap,
}

/// The least sum that a CPU would have with the task, and the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NoRoom {
    pub(super) sum: f64,
    pub(super) limit: f64,
}

/// Sums of many shares are not exact.
const ROUNDING: f64 = 1e-9;

impl AdmissionControl {
    pub(super) fn new(cpus: usize, limit: f64) -> Self {
        let mut heap = DeadlineHeap::new(cpus);
        (0..cpus).for_each(|position| heap.set(position, u64::MAX));
        Self { limit, sums: vec![0.0; cpus], nearest: vec![Vec::new(); cpus], heap }
    }

    /// Promises `density` of a CPU among `positions` to a task of a relative deadline.
    pub(super) fn admit(
        &mut self,
        positions: &[usize],
        density: f64,
        deadline_ns: u64,
    ) -> Result<usize, NoRoom> {
        let fits = |position: &usize| self.sums[*position] + density <= self.limit + ROUNDING;
        // The latest of all in one look; where that has no room, the latest of those that have.
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

    /// A task that was admitted is over.
    pub(super) fn release(&mut self, position: usize, density: f64, deadline_ns: u64) {
        self.sums[position] = (self.sums[position] - density).max(0.0);
        let nearest = &mut self.nearest[position];
        if let Some(at) = nearest.iter().position(|known| *known == deadline_ns) {
            nearest.remove(at);
        }
        self.heap.set(position, nearest.first().copied().unwrap_or(u64::MAX));
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
        // The second's deadline is later, and it has room.
        assert_eq!(admitted.admit(&[0, 1], 0.2, 5), Ok(second));
        // From now on that one has the nearest deadline.
        assert_eq!(admitted.admit(&[0, 1], 0.2, 5), Ok(first));
        assert_eq!(admitted.admit(&[second], 0.2, 5), Ok(second));
        admitted.release(first, 0.6, 10);
        assert_eq!(admitted.admit(&[0, 1], 0.5, 5), Ok(first));
    }
}

//! Which periodic tasks a CPU has room for.

use super::deadlines::DeadlineHeap;

/// What was promised of each CPU to tasks with budgets.
///
/// Earliest deadline first meets all deadlines of a CPU as long as the sum of budget over deadline is at
/// most 1 (Liu and Layland, 1973, with densities where deadlines are shorter than periods), or the part
/// of the CPU that real-time threads may use. Tasks are put onto the CPU whose nearest deadline is the
/// latest among those with room, as the kernel's `cpudl` has it.
#[derive(Debug)]
pub(super) struct Admitted {
    limit: f64,
    /// By place: the sum of densities.
    sums: Vec<f64>,
    /// By place: the shortest relative deadlines, the nearest first.
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

impl Admitted {
    pub(super) fn new(cpus: usize, limit: f64) -> Self {
        let mut heap = DeadlineHeap::new(cpus);
        (0..cpus).for_each(|place| heap.set(place, u64::MAX));
        Self { limit, sums: vec![0.0; cpus], nearest: vec![Vec::new(); cpus], heap }
    }

    /// Promises `density` of a CPU among `places` to a task of a relative deadline.
    pub(super) fn admit(
        &mut self,
        places: &[usize],
        density: f64,
        deadline_ns: u64,
    ) -> Result<usize, NoRoom> {
        let fits = |place: &usize| self.sums[*place] + density <= self.limit + ROUNDING;
        // The latest of all in one look; where that has no room, the latest of those that have.
        let latest = self.heap.latest().map(|(place, _)| place);
        let chosen = latest.filter(|place| places.contains(place) && fits(place)).or_else(|| {
            let with_room = places.iter().copied().filter(|place| fits(place));
            with_room.max_by_key(|place| self.heap.deadline(*place))
        });
        let Some(place) = chosen else {
            let least = places.iter().map(|place| self.sums[*place]).fold(f64::INFINITY, f64::min);
            return Err(NoRoom { sum: least + density, limit: self.limit });
        };
        self.sums[place] += density;
        let nearest = &mut self.nearest[place];
        nearest.insert(nearest.partition_point(|known| *known <= deadline_ns), deadline_ns);
        self.heap.set(place, self.nearest[place][0]);
        Ok(place)
    }

    /// A task that was admitted is over.
    pub(super) fn release(&mut self, place: usize, density: f64, deadline_ns: u64) {
        self.sums[place] = (self.sums[place] - density).max(0.0);
        let nearest = &mut self.nearest[place];
        if let Some(at) = nearest.iter().position(|known| *known == deadline_ns) {
            nearest.remove(at);
        }
        self.heap.set(place, nearest.first().copied().unwrap_or(u64::MAX));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tasks_go_to_the_cpu_of_the_latest_deadline_until_none_has_room() {
        let mut admitted = Admitted::new(2, 0.95);
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

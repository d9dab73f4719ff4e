//! Items of one queue begin soon, whatever another queue's items do with the workers.

use coreshard_sim::{Machine, Sim, Simulation};

use self::hogs::{Bench, Hog, waits};
use crate::machines;

#[path = "../../examples/hogs/hogs.rs"]
mod hogs;

const VICTIMS: usize = 40;

/// Fails if stand-ins steal forked jobs, if a pool gets no stand-in while another has one, or if items of a
/// queue without running items wait behind items of the hogs' queue.
#[test]
fn items_begin_soon_beside_hogs_of_each_kind() {
    let machine = Machine::from_toml("16 vCPUs", machines::XEON_16_VCPU).unwrap();
    for hog in Hog::ALL {
        let topology = machine.topology().clone();
        let cpus = topology.cpus().len();
        let bench = Bench { topology, cpus, compute: Sim::compute };
        let run = Simulation::new(&machine).run(move || waits::<Sim>(&bench, hog, VICTIMS));
        let waits_ms: Vec<u64> =
            run.unwrap().value.into_iter().map(|wait_ns| wait_ns / 1_000_000).collect();
        // Hogs in 64 queues share 16 CPUs equally with the waiting queue.
        let (median_ms, longest_ms) = if hog == Hog::Queues { (100, 400) } else { (20, 100) };
        let (median, longest) = (waits_ms[VICTIMS / 2], waits_ms[VICTIMS - 1]);
        assert!(median <= median_ms && longest <= longest_ms, "{hog:?}: {waits_ms:?}");
    }
}

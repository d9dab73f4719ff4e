//! A machine as options of QEMU: `-smp`, `-numa`, and the guest's memory as files.

use std::fs::File;

use coreshard_topology::{Cpu, Topology};

use super::guest_file;
use crate::common::bail_input;

/// The most CPUs: QEMU emulates no x2APIC before version 9.
const MOST_CPUS: usize = 255;
/// The guest's memory without `--memory`: enough for a kernel, and for each CPU's own data.
const LEAST_BYTES: u64 = 1 << 30;
const CPU_BYTES: u64 = 48 << 20;
/// Memory of a node is a multiple of a memory block.
const BLOCK_BYTES: u64 = 128 << 20;

/// A guest's CPUs and memory.
#[derive(Debug)]
pub(super) struct Guest {
    /// How many CPUs.
    pub(super) cpus: usize,
    /// The memory of each node, in the order of physical addresses; its length in bytes.
    pub(super) memory: Vec<(u64, File)>,
    options: Vec<String>,
}

/// What every package of the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    packages: usize,
    llcs: usize,
    cores: usize,
    threads: usize,
}

impl Guest {
    /// Expresses a machine in QEMU's terms.
    ///
    /// # Errors
    /// If its packages, caches or cores differ from one another, or it has too many CPUs.
    pub(super) fn of(topology: &Topology, memory_bytes: Option<u64>) -> anyhow::Result<Self> {
        let cpus = topology.cpus();
        if cpus.len() > MOST_CPUS {
            bail_input!(
                "{} has {} CPUs; an emulated machine has at most {MOST_CPUS}: boot a smaller machine, and replay the recording \
                 on this one",
                topology.name(),
                cpus.len()
            );
        }
        let (shape, order) = shape_of(topology)?;
        let Shape { packages, llcs, cores, threads } = shape;
        let mut options = vec![
            "-smp".to_owned(),
            format!(
                "cpus={},sockets={packages},dies={llcs},cores={cores},threads={threads}",
                cpus.len()
            ),
        ];
        let nodes = topology.nodes().max(1) as u64;
        let wanted = memory_bytes.unwrap_or(LEAST_BYTES + cpus.len() as u64 * CPU_BYTES);
        let each = (wanted / nodes).next_multiple_of(BLOCK_BYTES);
        let mut memory = Vec::new();
        for node in 0..nodes {
            let file = guest_file::new("coreshard-memory", each)?;
            options.extend([
                "-object".to_owned(),
                format!(
                    "memory-backend-file,id=memory{node},size={each},share=on,mem-path={}",
                    guest_file::path(&file)
                ),
            ]);
            memory.push((each, file));
        }
        options.extend(["-m".to_owned(), format!("{}M", (each * nodes) >> 20)]);
        if topology.nodes() > 1 {
            for (node, id) in topology.node_ids().iter().enumerate() {
                let its = |(_, cpu): &(usize, &&Cpu)| cpu.node == Some(*id);
                let places: Vec<_> =
                    order.iter().enumerate().filter(its).map(|(at, _)| at).collect();
                let list: String =
                    ranges(&places).iter().map(|(a, b)| format!(",cpus={a}-{b}")).collect();
                options.extend([
                    "-numa".to_owned(),
                    format!("node,nodeid={node},memdev=memory{node}{list}"),
                ]);
            }
        }
        Ok(Self { cpus: cpus.len(), memory, options })
    }

    /// Makes all memory zero, for another boot.
    pub(super) fn clear_memory(&self) -> anyhow::Result<()> {
        for (bytes, file) in &self.memory {
            file.set_len(0)?;
            file.set_len(*bytes)?;
        }
        Ok(())
    }

    /// Returns the value of `-machine`.
    pub(super) fn machine_option(&self) -> String {
        match self.memory.len() {
            1 => "q35,memory-backend=memory0".to_owned(),
            _ => "q35".to_owned(),
        }
    }

    /// Returns the other options.
    pub(super) fn options(&self) -> &[String] {
        &self.options
    }
}

/// Returns the machine's shape, and its CPUs in QEMU's order: the threads of a core one after the other, then the next core.
fn shape_of(topology: &Topology) -> anyhow::Result<(Shape, Vec<&Cpu>)> {
    let mut order: Vec<_> = topology.cpus().iter().collect();
    order.sort_by_key(|cpu| (cpu.package, cpu.llc, cpu.core, cpu.id));
    let counts = |of: &dyn Fn(&Cpu) -> u32, within: &dyn Fn(&Cpu) -> u32| {
        let mut pairs: Vec<_> = order.iter().map(|cpu| (within(cpu), of(cpu))).collect();
        pairs.dedup();
        let mut counts: Vec<usize> =
            pairs.chunk_by(|a, b| a.0 == b.0).map(<[(u32, u32)]>::len).collect();
        counts.sort_unstable();
        (counts[0], counts[counts.len() - 1])
    };
    let package = |cpu: &Cpu| cpu.package.0;
    let llc = |cpu: &Cpu| cpu.llc.0;
    let core = |cpu: &Cpu| cpu.core.0;
    let (llcs, cores, threads) =
        (counts(&llc, &package), counts(&core, &llc), counts(&|cpu| cpu.id.0, &core));
    for ((least, most), what) in [
        (llcs, "packages have from {} to {} last-level caches"),
        (cores, "last-level caches have from {} to {} cores"),
        (threads, "cores have from {} to {} threads"),
    ] {
        if least != most {
            let what = what.replacen("{}", &least.to_string(), 1);
            bail_input!(
                "{} cannot be emulated: its {}; QEMU's machines have the same number everywhere",
                topology.name(),
                what.replacen("{}", &most.to_string(), 1)
            );
        }
    }
    let packages = topology.packages();
    Ok((Shape { packages, llcs: llcs.0, cores: cores.0, threads: threads.0 }, order))
}

/// Ascending numbers as ranges.
fn ranges(numbers: &[usize]) -> Vec<(usize, usize)> {
    let chunks = numbers.chunk_by(|a, b| a + 1 == *b);
    chunks.filter_map(|chunk| Some((*chunk.first()?, *chunk.last()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(machine: &str) -> anyhow::Result<Guest> {
        Guest::of(&Topology::parse_machine(machine).unwrap(), Some(1 << 30))
    }

    #[test]
    fn a_regular_machine_is_expressed_with_its_nodes() {
        let its = guest("pack:2 numa:1 l3:2 core:4 pu:2").unwrap();
        let words = its.options().join(" ");
        assert!(words.contains("-smp cpus=32,sockets=2,dies=2,cores=4,threads=2"), "{words}");
        assert!(words.contains("nodeid=0,memdev=memory0,cpus=0-15"), "{words}");
        assert!(words.contains("nodeid=1,memdev=memory1,cpus=16-31"), "{words}");
        assert!(words.contains("-m 1024M"), "{words}");
        assert_eq!(its.memory.len(), 2);
    }

    #[test]
    fn one_node_needs_no_numa_option() {
        let its = guest("pack:1 l3:1 core:16 pu:1").unwrap();
        assert!(!its.options().join(" ").contains("-numa"));
        assert_eq!((its.cpus, its.machine_option().as_str()), (16, "q35,memory-backend=memory0"));
    }

    #[test]
    fn machines_that_qemu_cannot_express_are_refused_with_the_reason() {
        let error = guest("pack:2 numa:1 l3:1 core:120 pu:2").unwrap_err().to_string();
        assert!(error.contains("480 CPUs") && error.contains("at most 255"), "{error}");
        let hybrid = Topology::presets().unwrap().into_iter().find_map(|preset| {
            let topology = preset.topology().ok()?;
            (topology.cpus().len() < 64 && shape_of(&topology).is_err()).then_some(topology)
        });
        if let Some(hybrid) = hybrid {
            let error = Guest::of(&hybrid, None).unwrap_err().to_string();
            assert!(error.contains("cannot be emulated: its "), "{error}");
        }
    }

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), [(0, 2), (5, 5), (7, 8)]);
        assert_eq!(ranges(&[]), []);
    }
}

//! Block devices and network interfaces: queues and interrupts.

use serde::Serialize;

use super::machine::MaskFacts;
use crate::tree::Tree;

/// A physical or virtual block device that is not made of other devices.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BlockFacts {
    /// The name, such as `nvme0n1`.
    pub name: String,
    /// Number of hardware queues.
    pub hardware_queues: Option<usize>,
    /// The active scheduler, such as `none`.
    pub scheduler: Option<String>,
    /// The available schedulers.
    pub schedulers: Vec<String>,
    /// Where completions run: 0 anywhere, 1 in the CPU group of the submitter, 2 on the submitting CPU.
    pub rq_affinity: Option<u64>,
    /// Whether the device is rotational.
    pub rotational: Option<bool>,
    /// The NUMA node of the adapter.
    pub node: Option<u32>,
    /// The adapter's interrupts.
    pub interrupts: Vec<u32>,
}

/// A network interface with a device.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct NetworkFacts {
    /// The name, such as `eth0`.
    pub name: String,
    /// For each receive queue, the CPUs that packets are steered to in software; empty if steering is off.
    pub rps: Vec<Option<MaskFacts>>,
    /// The NUMA node of the adapter.
    pub node: Option<u32>,
    /// The adapter's interrupts.
    pub interrupts: Vec<u32>,
}

pub(super) fn block(tree: &Tree) -> Vec<BlockFacts> {
    let names = tree.names("sys/block").into_iter();
    // Devices made of files, memory or other devices. Reports without device links have only names.
    let made = ["loop", "ram", "zram", "dm-", "md", "nbd", "sr", "fd"];
    let devices = names.filter(|name| !made.iter().any(|made| name.starts_with(made)));
    devices
        .map(|name| {
            let queue = |file: &str| format!("sys/block/{name}/queue/{file}");
            let line = tree.word(queue("scheduler")).unwrap_or_default();
            let words = line.split_whitespace().take(16);
            let schedulers: Vec<String> =
                words.map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
            let chosen = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            // A single scheduler is printed without brackets.
            let scheduler =
                chosen.map(|(name, _)| name).or((schedulers.len() == 1).then_some(&*line));
            let hardware_queues = tree.names(format!("sys/block/{name}/mq")).len();
            let device = tree.device(format!("sys/block/{name}/device"));
            BlockFacts {
                hardware_queues: (hardware_queues > 0).then_some(hardware_queues),
                scheduler: scheduler.map(str::to_owned).filter(|it| !it.is_empty()),
                schedulers,
                rq_affinity: tree.count(queue("rq_affinity")),
                rotational: tree.flag(queue("rotational")),
                node: device.as_ref().and_then(|it| it.node()),
                interrupts: device.map(|it| it.interrupts()).unwrap_or_default(),
                name,
            }
        })
        .collect()
}

pub(super) fn network(tree: &Tree) -> Vec<NetworkFacts> {
    let names = tree.names("sys/class/net").into_iter();
    names
        .filter_map(|name| {
            let device = tree.device(format!("sys/class/net/{name}/device"))?;
            let queues = tree.names(format!("sys/class/net/{name}/queues")).into_iter();
            let receive = queues.filter(|queue| queue.starts_with("rx-"));
            let rps = receive.map(|queue| {
                tree.mask(format!("sys/class/net/{name}/queues/{queue}/rps_cpus")).map(MaskFacts)
            });
            Some(NetworkFacts {
                rps: rps.collect(),
                node: device.node(),
                interrupts: device.interrupts(),
                name,
            })
        })
        .collect()
}

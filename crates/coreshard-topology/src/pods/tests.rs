use proptest::prelude::*;

use super::*;

fn machine(text: &str) -> Topology {
    Topology::from_synthetic(text).unwrap()
}

fn pods(topology: &Topology, scope: Scope) -> Pods {
    Pods::new(topology, topology.online(), scope, ShardSize::DEFAULT).unwrap()
}

fn lists(pods: &Pods) -> Vec<String> {
    pods.iter().map(|pod| pod.cpus.to_string()).collect()
}

#[test]
fn grace_has_nine_shards_of_eight() {
    let grace = machine("pack:1 l3:1 core:72 pu:1");
    let shards = pods(&grace, Scope::CacheShard);
    assert_eq!(shards.len(), 9);
    assert!(shards.iter().all(|pod| pod.cpus.len() == 8 && pod.cores == 8));
    assert_eq!(lists(&shards)[1], "8-15");
}

#[test]
fn siblings_count_as_one_core_and_stay_together() {
    let adjacent = machine("core:6 pu:2");
    assert_eq!(lists(&pods(&adjacent, Scope::CacheShard)), ["0-11"]);
    let spread = machine("core:12 pu:2(indexes=core)");
    assert_eq!(lists(&pods(&spread, Scope::CacheShard)), ["0-5,12-17", "6-11,18-23"]);
    assert_eq!(lists(&pods(&spread, Scope::Smt))[..2], ["0,12", "1,13"]);
}

#[test]
fn two_sockets_of_120_cores_have_thirty_shards_and_two_nodes() {
    let big = machine("pack:2 numa:1 l3:1 core:120 pu:2");
    let counts = Scope::ALL.map(|scope| pods(&big, scope).len());
    assert_eq!(counts, [480, 240, 30, 2, 2, 1]);
    let nodes: Vec<_> = pods(&big, Scope::Numa).iter().map(|pod| pod.node).collect();
    assert_eq!(nodes, [Some(NodeId(0)), Some(NodeId(1))]);
    assert_eq!(pods(&big, Scope::System).get(PodId(0)).unwrap().node, None);
}

#[test]
fn a_core_stands_where_its_lowest_cpu_stands() {
    // CPUs 0, 1 and 2, 3 and … are numbered so that core k holds CPUs 23-k and k.
    let list: Vec<String> = (0..12).flat_map(|k| [23 - k, k]).map(|n| n.to_string()).collect();
    let mirrored = machine(&format!("core:12 pu:2(indexes={})", list.join(",")));
    assert_eq!(
        lists(&pods(&mirrored, Scope::CacheShard)),
        ["0-5,18-23", "6-11,12-17"].map(canonical)
    );
}

fn canonical(list: &str) -> String {
    list.parse::<CpuSet>().unwrap().to_string()
}

#[test]
fn a_mask_is_divided_as_if_it_were_the_whole_machine() {
    let grace = machine("pack:1 l3:1 core:72 pu:1");
    let mask: CpuSet = "10-21".parse().unwrap();
    let shards = Pods::new(&grace, &mask, Scope::CacheShard, ShardSize::DEFAULT).unwrap();
    assert_eq!(lists(&shards), ["10-15", "16-21"]);
    assert_eq!(shards.pod_of(CpuId(9)), None);
    assert_eq!(shards.pod_of(CpuId(21)), Some(PodId(1)));
    assert_eq!(shards.pod_of(CpuId(u32::MAX)), None);
}

#[test]
fn an_llc_that_spans_nodes_is_cut_at_the_border() {
    // Sub-NUMA clustering: one L3 of 24 cores over two nodes.
    let snc = machine("pack:1 l3:1 numa:2 core:12 pu:1");
    assert_eq!(snc.llcs(), 1);
    assert_eq!(lists(&pods(&snc, Scope::Cache)), ["0-11", "12-23"]);
    assert_eq!(lists(&pods(&snc, Scope::CacheShard)), ["0-5", "6-11", "12-17", "18-23"]);
    assert!(snc.notes().iter().any(|note| note.contains("span NUMA nodes")), "{:?}", snc.notes());
}

#[test]
fn what_pods_take_grows_with_the_cpus_in_every_scope() {
    // Siblings far apart are the worst case: every core touches two words of the bitmap.
    for packages in [1, 4, 16] {
        let big = machine(&format!("pack:{packages} l3:8 core:32 pu:2(indexes=core)"));
        for scope in Scope::ALL {
            let words: usize = pods(&big, scope).iter().map(|pod| pod.cpus.words()).sum();
            assert!(words <= big.cpus().len(), "{scope}, {} CPUs: {words}", big.cpus().len());
        }
    }
}

#[test]
fn wrong_masks_are_named() {
    let small = machine("core:4 pu:1");
    let error = |mask: &str| {
        let mask: CpuSet = mask.parse().unwrap();
        Pods::new(&small, &mask, Scope::Cpu, ShardSize::DEFAULT).unwrap_err().to_string()
    };
    assert_eq!(error(""), "invalid CPU mask: expected at least one CPU");
    assert_eq!(error("2-5,900"), "invalid CPU mask: 4-5,900 is not online, expected CPUs of 0-3");
}

/// A machine of any shape hwloc can describe evenly, with CPUs numbered any way.
fn any_machine() -> impl Strategy<Value = Topology> {
    let widths = (1_usize..=3, 1_usize..=3, 1_usize..=3, 1_usize..=40, 1_usize..=4);
    (widths, 0_usize..4, any::<u64>()).prop_map(|((pack, numa, l3, core, pu), shape, seed)| {
        let mut numbers: Vec<usize> = (0..pack * numa * l3 * core * pu).collect();
        // A seeded shuffle; which one does not matter.
        let mut state = seed | 1;
        for place in (1..numbers.len()).rev() {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            numbers.swap(place, (state >> 33) as usize % (place + 1));
        }
        let list: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        let inside = match shape {
            0 => format!("numa:{numa} l3:{l3}"),
            1 => format!("l3:{l3} numa:{numa}"),
            2 => format!("l3:{l3} group:{numa} [numa]"),
            _ => format!("group:{numa} l2:{l3}"),
        };
        machine(&format!("pack:{pack} {inside} core:{core} pu:{pu}(indexes={})", list.join(",")))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn pods_divide_the_mask_and_nest(
        topology in any_machine(),
        size in 0_usize..40,
        keep in proptest::collection::vec(any::<bool>(), 97),
    ) {
        let size = ShardSize::new(size);
        let mut mask: CpuSet =
            topology.online().iter().filter(|cpu| keep[cpu.index() % keep.len()]).collect();
        if mask.is_empty() {
            mask = topology.online().clone();
        }
        let all = Scope::ALL.map(|scope| Pods::new(&topology, &mask, scope, size).unwrap());
        for pods in &all {
            // Every CPU is in exactly one pod, and the table agrees with the sets.
            let total: usize = pods.iter().map(|pod| pod.cpus.len()).sum();
            prop_assert_eq!(total, mask.len());
            for pod in pods {
                prop_assert!(!pod.cpus.is_empty());
                for cpu in &pod.cpus {
                    prop_assert_eq!(pods.pod_of(cpu), Some(pod.id));
                }
                let nodes: std::collections::BTreeSet<_> =
                    pod.cpus.iter().map(|cpu| topology.cpu(cpu).unwrap().node).collect();
                let only = nodes.first().copied().flatten().filter(|_| nodes.len() == 1);
                prop_assert_eq!(pod.node, only);
                let cores: std::collections::BTreeSet<_> =
                    pod.cpus.iter().map(|cpu| topology.cpu(cpu).unwrap().core).collect();
                prop_assert_eq!(pod.cores, cores.len());
            }
        }
        for (fine, coarse) in all.iter().zip(&all[1..]) {
            for pod in fine {
                let outer = pod.cpus.first().and_then(|cpu| coarse.pod_of(cpu)).unwrap();
                prop_assert!(pod.cpus.is_subset(&coarse.get(outer).unwrap().cpus));
            }
        }
        // No core is split: each lies in one shard, as smt pods nest in shards (above), and smt pods
        // are whole cores.
        for pod in &all[1] {
            let core = topology.cpu(pod.cpus.first().unwrap()).unwrap().core;
            prop_assert_eq!(&pod.cpus, &(&topology.cpus_of_core(core) & &mask));
        }
        // The shards of one cache pod differ by at most one core, larger ones first.
        for cache in &all[3] {
            let shards: Vec<usize> = all[2]
                .iter()
                .filter(|shard| shard.cpus.is_subset(&cache.cpus))
                .map(|shard| shard.cores)
                .collect();
            prop_assert_eq!(&shards, &size.divide(cache.cores).collect::<Vec<_>>());
        }
        // Cache pods never hold two caches.
        for pod in &all[3] {
            let llc = topology.cpu(pod.cpus.first().unwrap()).unwrap().llc;
            prop_assert!(pod.cpus.is_subset(&topology.llc(llc).unwrap().cpus));
        }
    }
}

/// Performance cores with two CPUs each, and efficiency cores in clusters of four, behind one cache.
fn hybrid(fast: u32, quads: u32) -> Topology {
    let mut parts = crate::topology::Parts::new("hybrid".to_owned());
    parts.cpus.extend((0..2 * fast + 4 * quads).map(|cpu| {
        let is_fast = cpu < 2 * fast;
        crate::topology::RawCpu {
            id: CpuId(cpu),
            core: u64::from(if is_fast { cpu / 2 * 2 } else { cpu }),
            llc: 0,
            node: None,
            package: 0,
            kind: if is_fast { CpuKind::Performance } else { CpuKind::Efficiency },
            cluster: (!is_fast).then(|| u64::from((cpu - 2 * fast) / 4)),
            os_core: None,
            os_package: None,
        }
    }));
    parts.assemble().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_shard_mixes_kinds_or_cuts_a_cluster(
        fast in 1_u32..9, quads in 1_u32..6, size in 1_usize..12, hidden in 0_u32..16,
    ) {
        let machine = hybrid(fast, quads);
        let mask: CpuSet = machine.online().iter().filter(|cpu| cpu.0 != hidden).collect();
        for machine in [machine.restrict(&mask).unwrap(), machine] {
            let shards = Pods::new(&machine, &mask, Scope::CacheShard, ShardSize::new(size)).unwrap();
            let cpus = |of: fn(&crate::Cpu) -> u32, it: u32| -> Vec<&crate::Cpu> {
                machine.cpus().iter().filter(|cpu| mask.contains(cpu.id) && of(cpu) == it).collect()
            };
            for shard in &shards {
                let kinds = shard.cpus.iter().map(|cpu| machine.cpu(cpu).unwrap().kind);
                let kinds: std::collections::BTreeSet<_> = kinds.collect();
                prop_assert_eq!(kinds.len(), 1, "{}", shard);
            }
            for cpu in machine.cpus().iter().filter(|cpu| mask.contains(cpu.id)) {
                let cluster = cpus(|it| it.cluster, cpu.cluster);
                let cores: std::collections::BTreeSet<_> = cluster.iter().map(|it| it.core).collect();
                let pods: std::collections::BTreeSet<_> =
                    cluster.iter().map(|it| shards.pod_of(it.id)).collect();
                prop_assert!(pods.len() == 1 || cores.len() > size, "{:?}", pods);
            }
        }
    }
}

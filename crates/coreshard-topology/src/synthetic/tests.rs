//! Expected values are what `lstopo` and `hwloc-calc` of hwloc 2.9.0 say of the same string.

use proptest::prelude::*;

use crate::{CpuId, NodeId, Topology, TopologyError};

fn machine(text: &str) -> Topology {
    Topology::from_synthetic(text).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> TopologyError {
    Topology::from_synthetic(text).expect_err(text)
}

/// The numbers of the CPUs in the order of the tree: core by core within each package.
fn numbering(topology: &Topology) -> Vec<u32> {
    let mut cpus: Vec<_> = topology.cpus().to_vec();
    cpus.sort_by_key(|cpu| (cpu.os_package, cpu.os_core, cpu.id));
    cpus.iter().map(|cpu| cpu.id.0).collect()
}

#[test]
fn levels_count_per_object_of_the_level_above() {
    // Packages, L3s (or what stands in), cores, CPUs, nodes.
    let table = [
        ("pack:2 numa:1 l3:1 core:120 pu:2", [2, 2, 240, 480, 2]),
        ("pack:2 [numa] l3:1 core:120 pu:2", [2, 2, 240, 480, 2]),
        ("pack:2[numa]core:2 pu:1", [2, 2, 4, 4, 2]),
        ("pack:2core:2pu:2", [2, 2, 4, 8, 1]),
        ("[numa] core:4 pu:1", [1, 1, 4, 4, 1]),
        ("(memory=4GB) 2 2", [1, 1, 4, 4, 2]),
        ("2 3 4 5 6", [2, 24, 120, 720, 6]),
        ("Package:2 NUMANode:3 L2Cache:4 Core:5 PU:6", [2, 24, 120, 720, 6]),
        ("4", [1, 1, 4, 4, 1]),
        ("3 4", [1, 1, 12, 12, 3]),
        ("pack:0x2 pu:010", [2, 2, 16, 16, 1]),
        ("so:2 pu:1", [2, 2, 2, 2, 1]),
        ("no:2 pu:1", [1, 1, 2, 2, 2]),
        ("nu:2 pu:1", [1, 1, 2, 2, 2]),
        ("die:2 core:2 pu:2", [1, 1, 4, 8, 1]),
        ("group3:2 pu:1", [1, 1, 2, 2, 1]),
        ("Tile:2 pu:1", [1, 1, 2, 2, 1]),
        ("l3cache:2 pu:1", [1, 2, 2, 2, 1]),
        ("l3:2 l2:2 l1d:1 l1i:1 core:1 pu:2", [1, 2, 4, 8, 1]),
        ("l2uCache:4 l1i:1 core:1 pu:1", [1, 4, 4, 4, 1]),
        ("l1d:2(size=32kB) pu:1", [1, 2, 2, 2, 1]),
        ("numa:2(memory=16MB indexes=1,0) pu:1", [1, 1, 2, 2, 2]),
    ];
    for (text, expected) in table {
        let found = machine(text);
        let counts =
            [found.packages(), found.llcs(), found.cores(), found.cpus().len(), found.nodes()];
        assert_eq!(counts, expected, "{text}");
    }
}

#[test]
fn the_highest_cache_is_the_last_level() {
    let llc = |text: &str| {
        let found = machine(text);
        let llc = found.llc(found.cpu(CpuId(0)).unwrap().llc).unwrap();
        (llc.level, llc.size_bytes)
    };
    assert_eq!(llc("l3:1(size=32MiB) l2:4 core:1 pu:1"), (Some(3), Some(32 << 20)));
    assert_eq!(llc("l2:2(size=4096) core:2 pu:1"), (Some(2), Some(4096)));
    assert_eq!(llc("l2i:2 core:2 pu:1"), (None, None));
    assert_eq!(llc("l1d:2 core:2 pu:1"), (Some(1), None));
}

#[test]
fn cpus_are_numbered_along_the_tree_unless_indexes_are_given() {
    assert_eq!(numbering(&machine("pack:2 core:2 pu:2")), [0, 1, 2, 3, 4, 5, 6, 7]);
    let siblings = |text: &str| {
        let found = machine(text);
        let core = found.cpu(CpuId(0)).unwrap().core;
        found.cpus_of_core(core).to_string()
    };
    assert_eq!(siblings("pack:2 l3:2 core:2 pu:2(indexes=core)"), "0,8");
    assert_eq!(siblings("core:2 pu:2(indexes=0,2,1,3)"), "0,2");
    let nodes = machine("pack:2 numa:2 core:2 pu:2(indexes=numa:core)");
    let lists: Vec<String> =
        nodes.node_ids().iter().map(|node| nodes.cpus_of_node(*node).to_string()).collect();
    assert_eq!(lists, ["0,4,8,12", "1,5,9,13", "2,6,10,14", "3,7,11,15"]);
    for text in ["pack:2 core:2 pu:2(indexes=core:pack)", "pack:2 core:2 pu:2(indexes=2*2:4*2:1*2)"]
    {
        let found = machine(text);
        let cores: Vec<String> =
            (0..4).map(|core| found.cpus_of_core(crate::CoreId(core)).to_string()).collect();
        assert_eq!(cores, ["0,4", "1,5", "2,6", "3,7"], "{text}");
        assert_eq!(found.cpu(CpuId(2)).unwrap().package.0, 1, "{text}");
    }
}

#[test]
fn attached_nodes_are_counted_from_the_inside_out() {
    let phi = machine("package:1 group:4 [numa] [numa] core:16 pu:4");
    let own: Vec<u32> = phi.node_ids().iter().map(|node| node.0).collect();
    let memory: Vec<u32> = phi.memory_only_nodes().iter().map(|node| node.0).collect();
    assert_eq!((own, memory), (vec![0, 2, 4, 6], vec![1, 3, 5, 7]));
    assert_eq!(phi.cpus_of_node(NodeId(4)).to_string(), "128-191");

    let deep = machine("pack:2 [numa] group:2 [numa(indexes=5,4,3,2,1,0)] core:2 pu:1");
    for (node, cpus) in [(5, "0-1"), (4, "2-3"), (2, "4-5"), (1, "6-7"), (3, ""), (0, "")] {
        assert_eq!(deep.cpus_of_node(NodeId(node)).to_string(), cpus, "node {node}");
    }

    let numbered = machine("pack:3 numa:2(indexes=pack) core:2 pu:1");
    let of: Vec<u32> = (0..12).map(|n| numbered.cpu(CpuId(n)).unwrap().node.unwrap().0).collect();
    assert_eq!(of, [0, 0, 3, 3, 1, 1, 4, 4, 2, 2, 5, 5]);
}

#[test]
fn what_is_not_described_is_noted() {
    let bare = machine("pu:4");
    assert_eq!((bare.packages(), bare.llcs(), bare.cores(), bare.nodes()), (1, 1, 4, 1));
    let notes = bare.notes().join("\n");
    for missing in ["no package", "no core", "no cache"] {
        assert!(notes.contains(missing), "{missing}: {notes}");
    }
    assert_eq!(machine("pack:1 l3:1 core:4 pu:1").notes(), [""; 0]);
}

#[test]
fn mistakes_name_their_column() {
    let table = [
        ("", 1, "expected levels"),
        ("   ", 4, "expected levels"),
        ("core:72", 8, "the last level must be pu"),
        ("machine:1 core:2 pu:1", 1, "unexpected machine"),
        ("pack:2 corn:4 pu:1", 8, "unknown level type \"corn\""),
        ("p:2 pu:1", 1, "unknown level type"),
        ("l6:2 pu:1", 1, "unknown level type"),
        ("l4i:2 pu:1", 1, "unknown level type"),
        ("pack2:2 pu:1", 1, "unknown level type"),
        ("pack:2 core pu:1", 12, "expected ':'"),
        ("pack: pu:1", 6, "expected the number of objects"),
        ("pack:0 pu:1", 6, "at least 1"),
        ("pack:-1 pu:1", 6, "expected the number"),
        ("pack:2,core:2 pu:1", 7, "level type \",\""),
        ("pack:2 pack:2 pu:1", 8, "unexpected second"),
        ("l3:2 l3:2 pu:1", 6, "unexpected second"),
        ("pu:2 core:2", 1, "pu must be the last level"),
        ("pu:2 pu:2", 1, "pu must be the last level"),
        ("2 core:2 pu:2", 1, "either every level"),
        ("core:2 3 pu:2", 8, "either every level"),
        ("numa:2 [numa] pu:1", 1, "not both"),
        ("pack:2 [core] pu:1", 9, "only numa"),
        ("pack:2 [numa pu:1", 14, "expected ']'"),
        ("pack:65537 pu:1", 6, "at most 65536"),
        ("pack:65536 core:2 pu:1", 17, "at most 65536"),
        ("pack:99999999999999999999 pu:1", 6, "exceeds 64 bits"),
        ("l3:2(size=3XB) pu:1", 12, "invalid unit of size"),
        ("l3:2(size=) pu:1", 11, "expected a size"),
        ("l3:2(size=32MiB pu:1", 17, "expected size= or indexes="),
        ("l3:2(memory=1) pu:1", 6, "expected size= or indexes="),
        ("l3:2(", 5, "to close this parenthesis"),
        ("core:2 l3:2 pu:1", 8, "several l3"),
        ("core:2 pack:2 pu:1", 8, "several package"),
        ("core:2 group:2 [numa] pu:1", 8, "several numa"),
        ("pu:4(indexes=0,1,2) ", 14, "expected 4 indexes, found 3"),
        ("pu:4(indexes=0,1,2,2)", 14, "given twice"),
        ("pu:2(indexes=0,65536)", 16, "up to 65535"),
        ("pu:2(indexes=)", 14, "expected a number"),
        ("core:2 pu:2(indexes=pack)", 21, "no package level"),
        ("core:2 pu:2(indexes=core:pu)", 26, "unexpected pu"),
        ("core:2 pu:2(indexes=core:core)", 26, "named twice"),
        ("core:2 pu:2(indexes=corn)", 21, "level type \"corn\""),
        ("pu:6(indexes=1*4)", 14, "do not number 6"),
        ("pu:6(indexes=1*2)", 14, "do not number 6"),
        ("pu:4(indexes=2*2:2*2)", 14, "given twice"),
        ("pu:4(indexes=2*2:x)", 18, "STEP*COUNT"),
        ("pu:4(indexes=0*2:1*2)", 14, "STEP*COUNT"),
        ("é:2 pu:1", 1, "level type \"é\""),
        ("pack:2 é", 8, "level type \"é\""),
    ];
    for (text, column, words) in table {
        let error = error(text);
        assert_eq!(error.column(), Some(column), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn eight_thousand_cpus_are_described_and_divided() {
    let big = machine("pack:8 numa:2 l3:8 core:32 pu:2(indexes=core)");
    assert_eq!((big.cpus().len(), big.cores(), big.llcs(), big.nodes()), (8192, 4096, 128, 16));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_the_parser_panic(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "pack", "numa", "core", "pu", "l3", "l1i", "group", "[", "]", "(", ")", ":", " ", "1",
                "2", "0", "0x", "99999999999999999999", "65536", "indexes=", "size=", "memory=", "*",
                ",", "MiB", "core:2", "pu:2", "pack:2", "l3:2", "[numa]", "é", "\n", "-",
            ]),
            0..14,
        ),
    ) {
        let text = pieces.concat();
        match Topology::from_synthetic(&text) {
            Ok(found) => prop_assert!(!found.online().is_empty()),
            Err(error) => {
                let column = error.column();
                prop_assert!(column.is_some_and(|c| c <= text.chars().count() + 1), "{error}");
            }
        }
    }
}

/// Each of these took minutes, or gigabytes.
#[test]
fn a_description_costs_no_more_than_a_machine_does() {
    for (text, bound) in [
        ("[numa]".repeat(5_000) + " pu:1", "at most 4096 NUMA nodes"),
        ("core:65536 [numa] pu:1".to_owned(), "at most 4096 NUMA nodes"),
        ("numa:65536 pu:1".to_owned(), "at most 4096 NUMA nodes"),
        (format!("pu:65536(indexes={}1*1)", "1*1:".repeat(200_000)), "at most 128 loops"),
        ("pu:1".to_owned() + &" ".repeat(1 << 20), "at most 1048576 bytes"),
        ("\u{1b}".repeat(100_000), "found"),
    ] {
        let error = error(&text).to_string();
        assert!(error.contains(bound) || bound == "found", "{error}");
        assert!(error.len() < 500 && !error.contains('\u{1b}'), "{error}");
    }
    assert_eq!(machine("pack:1\n l3:1\tcore:2 pu:1").name(), "pack:1  l3:1 core:2 pu:1");
}

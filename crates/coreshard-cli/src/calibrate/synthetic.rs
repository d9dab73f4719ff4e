//! Describes a machine as a synthetic string.

use crate::common::bail_input;
use anyhow::bail;
use coreshard::Topology;
use coreshard_topology::Cpu;

/// Returns the string that describes `topology`.
///
/// # Errors
///
/// If the machine is not regular: its packages, nodes, caches or cores differ in size.
pub(super) fn describe(topology: &Topology) -> anyhow::Result<String> {
    let text = levels(topology);
    let Some(text) = text.filter(|text| is_same(topology, text)) else {
        bail_input!(
            "this machine ({}, CPUs {}) is not regular: its packages, nodes, caches or cores differ in size, which a machine file cannot describe; use taskset to calibrate a regular part of it",
            topology.name(),
            topology.online(),
        );
    };
    Ok(text)
}

type LevelNumber = fn(&Cpu) -> u32;

/// Returns the levels with their counts, and CPU numbers if they are not in the tree's order.
fn levels(topology: &Topology) -> Option<String> {
    let keys: [(&str, LevelNumber); 4] = [
        ("pack", |cpu| cpu.package.0),
        ("numa", |cpu| cpu.node.map_or(0, |node| node.0)),
        ("l3", |cpu| cpu.llc.0),
        ("core", |cpu| cpu.core.0),
    ];
    let mut groups: Vec<Vec<&Cpu>> = vec![topology.cpus().iter().collect()];
    let mut text = Vec::new();
    for (level, key) in keys {
        let mut finer: Vec<Vec<&Cpu>> = Vec::new();
        let mut count = None;
        for group in &groups {
            let mut parts: Vec<Vec<&Cpu>> = Vec::new();
            for cpu in group {
                match parts.iter_mut().find(|part| key(part[0]) == key(cpu)) {
                    Some(part) => part.push(cpu),
                    None => parts.push(vec![cpu]),
                }
            }
            if *count.get_or_insert(parts.len()) != parts.len() {
                return None;
            }
            finer.extend(parts);
        }
        text.push(format!("{level}:{}", count?));
        groups = finer;
    }
    let threads = groups.first()?.len();
    if groups.iter().any(|core| core.len() != threads) {
        return None;
    }
    let numbers: Vec<u32> = groups.iter().flatten().map(|cpu| cpu.id.0).collect();
    let in_order = numbers.iter().enumerate().all(|(place, number)| place == *number as usize);
    text.push(if in_order {
        format!("pu:{threads}")
    } else {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        format!("pu:{threads}(indexes={})", numbers.join(","))
    });
    Some(text.join(" "))
}

/// Returns true if the string describes the same CPUs with the same sharing.
fn is_same(topology: &Topology, text: &str) -> bool {
    let read = || -> anyhow::Result<bool> {
        let other = Topology::from_synthetic(text)?;
        if other.online() != topology.online() {
            bail!("other CPUs");
        }
        let shares = |one: &Cpu, two: &Cpu| {
            [
                one.core == two.core,
                one.llc == two.llc,
                one.package == two.package,
                one.node == two.node,
            ]
        };
        let (own, its) = (topology.cpus(), other.cpus());
        let place = |cpu: &Cpu| its.iter().position(|other| other.id == cpu.id);
        let places: Option<Vec<usize>> = own.iter().map(place).collect();
        let Some(places) = places else { return Ok(false) };
        Ok((0..own.len()).all(|one| {
            (0..one).all(|two| {
                shares(&own[one], &own[two]) == shares(&its[places[one]], &its[places[two]])
            })
        }))
    };
    read().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_machine_is_described_by_a_string_that_means_it() {
        for text in [
            "pack:1 numa:1 l3:1 core:2 pu:1",
            "pack:2 numa:1 l3:8 core:1 pu:2",
            "pack:2 numa:2 l3:2 core:3 pu:2(indexes=core)",
            "pack:1 l3:2 core:4 pu:2(indexes=3,11,2,10,1,9,0,8,7,15,6,14,5,13,4,12)",
        ] {
            let topology = Topology::from_synthetic(text).unwrap();
            let described = describe(&topology).unwrap();
            assert!(is_same(&topology, &described), "{text}: {described}");
        }
        let part = Topology::from_synthetic("pack:2 numa:1 l3:2 core:2 pu:2").unwrap();
        let part = part.restrict(&"4-11".parse().unwrap()).unwrap();
        assert_eq!(
            describe(&part).unwrap(),
            "pack:2 numa:1 l3:1 core:2 pu:2(indexes=4,5,6,7,8,9,10,11)"
        );
    }

    #[test]
    fn an_irregular_one_is_an_error() {
        let whole = Topology::from_synthetic("pack:2 numa:1 l3:2 core:2 pu:2").unwrap();
        let part = whole.restrict(&"0-2,8-15".parse().unwrap()).unwrap();
        let error = describe(&part).unwrap_err().to_string();
        assert!(error.contains("is not regular") && error.contains("0-2,8-15"), "{error}");
    }
}

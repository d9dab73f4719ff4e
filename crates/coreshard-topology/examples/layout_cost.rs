//! How long it takes to describe machines of growing size and to lay their pods out.
//!
//! ```text
//! cargo run --release -p coreshard-topology --example layout_cost
//! ```
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::time::Instant;

use coreshard_topology::{Pods, Scope, ShardSize, Topology};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:>7} {:>12} {:>14} {:>16}",
        "CPUs", "describe µs", "six scopes µs", "cache_shard µs"
    );
    for packages in [1, 2, 4, 8, 16, 32] {
        let text = format!("pack:{packages} numa:2 l3:8 core:32 pu:2(indexes=core)");
        let start = Instant::now();
        let machine = Topology::from_synthetic(&text)?;
        let described = start.elapsed();

        let start = Instant::now();
        for scope in Scope::ALL {
            Pods::new(&machine, machine.online(), scope, ShardSize::DEFAULT)?;
        }
        let all = start.elapsed();

        let start = Instant::now();
        Pods::new(&machine, machine.online(), Scope::CacheShard, ShardSize::DEFAULT)?;
        let shards = start.elapsed();
        let cpus = machine.cpus().len();
        let [described, all, shards] = [described, all, shards].map(|time| time.as_micros());
        println!("{cpus:>7} {described:>12} {all:>14} {shards:>16}");
    }
    Ok(())
}

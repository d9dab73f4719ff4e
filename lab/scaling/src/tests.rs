//! Each executor runs each load to its end, each item once, on a small machine.

use std::sync::Arc;

use clap::Parser as _;
use coreshard_sim::{Machine, Simulation};
use coreshard_topology::CpuSet;

use crate::executor;
use crate::load::Load;
use crate::{Arguments, Name};

const LOADS: [&str; 7] = [
    "loop:64:1000",
    "stencil:24:3",
    "burst:64:1000",
    "pingpong:20:3",
    "spawn:200:3",
    "fib:8:50",
    "tree:5:50",
];

#[test]
fn each_executor_runs_what_it_can() {
    let machine = Machine::pocket();
    let cpus: CpuSet = machine.topology().online().iter().take(6).collect();
    let arguments = Arguments::parse_from(["scaling"]);
    let mut ran = 0;
    for name in [Name::Coreshard, Name::Team, Name::Rayon, Name::Channel, Name::Tokio, Name::Floor]
    {
        for load in LOADS.map(|load| load.parse::<Load>().unwrap()) {
            let run = Simulation::new(&machine).run(|| {
                let executor = arguments.start(name, &machine, &cpus);
                let times = executor::time(&executor, load, 2);
                executor.end();
                assert_eq!(Arc::strong_count(&executor), 1, "spawners have ended");
                times.is_some()
            });
            ran += usize::from(run.unwrap().value);
        }
    }
    // Channel and tokio have neither loops nor joins here, and the floor has no joins.
    assert_eq!(ran, 7 + 7 + 7 + 3 + 3 + 5);
}

#[test]
fn a_load_that_is_none_is_refused_with_the_forms_there_are() {
    for text in
        ["", "loop", "loop:4:1:2", "loop:0:1", "loop:9999:1", "fib:40:1", "spawn:3:0", "walk:1:1"]
    {
        let error = text.parse::<Load>().unwrap_err().to_string();
        assert!(error.contains("invalid"), "{text:?}: {error}");
    }
    assert_eq!("burst:64:10000".parse::<Load>().unwrap().to_string(), "burst:64:10000");
}

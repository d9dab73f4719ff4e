//! Described contentions on simulated machines.

use coreshard_sim::contend::{Contention, Measured, Operation, Remedy, simulate};
use coreshard_sim::{Machine, Simulation};

fn read(text: &str) -> Contention {
    Contention::from_toml("it", text).unwrap()
}

fn run(contention: &Contention, threads: usize) -> Measured {
    let machine = Machine::pocket();
    let (outside_ns, _) = contention.outside_ns(0.0);
    simulate(contention, &Simulation::new(&machine).seed(3), threads, outside_ns).unwrap()
}

#[test]
fn every_operation_ends_and_repeats_itself() {
    for operation in Operation::ALL {
        let inside = if operation.is_lock() { ", writes = [\"data\"], inside_ns = 20" } else { "" };
        for retry in ["at-once", "pause", "back-off"] {
            let retry = match operation.retries() {
                true => format!(", retry = \"{retry}\""),
                false if retry == "pause" => String::new(),
                false => continue,
            };
            let name = operation.name();
            let text = format!("outside_ns = 50\nsteps = [{{ {name} = \"it\"{inside}{retry} }}]");
            let contention = read(&text);
            for threads in [1, 2, 16] {
                let first = run(&contention, threads);
                assert!(first.per_sec > 1e4 && first.per_sec < 1e9, "{text}: {first:?}");
                assert_eq!(first, run(&contention, threads), "{text}");
            }
        }
    }
}

#[test]
fn a_thread_alone_takes_the_time_of_its_steps() {
    let contention = read("outside_ns = 93\nsteps = [{ add = \"it\" }]");
    let alone = run(&contention, 1);
    assert!((alone.per_sec / 1e7 - 1.0).abs() < 0.05, "{alone:?}");
    assert!((alone.steps_ns - 7.0).abs() < 4.0, "{alone:?}");
}

#[test]
fn words_on_one_line_slow_each_other_down_until_they_are_padded() {
    let text = "per_thread = [\"hits\"]\noutside_ns = 20\nsteps = [{ add = \"hits\" }]";
    let packed = read(text);
    let padded = Remedy::Pad.apply(&packed).unwrap();
    let (packed, padded) = (run(&packed, 8), run(&padded, 8));
    assert!(padded.per_sec > 3.0 * packed.per_sec, "{packed:?} {padded:?}");
}

#[test]
fn the_line_that_limits_has_the_largest_share() {
    let text = "outside_ns = 100\nsteps = [{ add = \"hot\" }, { load = \"cold\" }]";
    let shares = run(&read(text), 16).shares;
    assert!(shares[0] > 0.5 && shares[1] < 0.05, "{shares:?}");
}

#[test]
fn splitting_a_counter_helps_and_splitting_it_further_helps_more() {
    let counter = read("outside_ns = 20\nplacement = \"compact\"\nsteps = [{ add = \"it\" }]");
    let rate = |of: Option<Contention>| run(&of.unwrap(), 16).per_sec;
    let all = run(&counter, 16).per_sec;
    let shard = rate(Remedy::PerShard.apply(&counter));
    let cpu = rate(Remedy::PerCpu.apply(&counter));
    assert!(shard > 1.2 * all && cpu > 2.0 * shard, "{all} {shard} {cpu}");
}

/// On a machine whose loads take dirty lines, a load may take the line that another thread spins on. That thread
/// must then notice the store that follows.
#[test]
fn a_waiter_sees_each_handover_of_a_ticket_lock() {
    let pocket = include_str!("../../src/machine/pocket.toml");
    let machine = format!(
        "{}\n[costs.arbitration]\nhold_ns = 15\nreach_ns = 100\n\
         misses_at_once = 5\nloads_take_dirty_lines = true\n\
         source = \"assumed\"\n",
        pocket
            .replace("latency_llc = { ns = 25", "latency_llc = { ns = 69")
            .replace("spin_hint = { ns = 53.8", "spin_hint = { ns = 13.2")
    );
    let machine = Machine::from_toml("m", &machine).unwrap();
    let text = "placement = \"0,2\"\noutside_ns = 200\n\
                steps = [{ ticket-lock = \"it\", writes = [\"a\", \"b\"], inside_ns = 20 }]";
    let contention = read(text);
    for seed in 0..8 {
        let simulation = Simulation::new(&machine).seed(seed);
        let measured = simulate(&contention, &simulation, 2, 200.0).unwrap();
        assert!(measured.steps_ns < 1_000.0, "seed {seed}: {measured:?}");
    }
}

/// A combining lock's holder keeps the data in its cache.
#[test]
fn every_remedy_of_a_lock_runs() {
    let text = "lines = [[\"lock\", \"head\"]]\noutside_ns = 100\nsteps = [\n\
                { spin-lock = \"lock\", writes = [\"head\", \"a\", \"b\"], inside_ns = 30 },\n\
                { read-lock = \"map\", reads = [\"entry\"] },\n\
                { write-lock = \"map\", writes = [\"entry\"], every = 16 },\n]";
    let contention = read(text);
    for remedy in Remedy::ALL {
        let changed = remedy.apply(&contention).unwrap();
        let measured = run(&changed, 16);
        assert!(measured.per_sec > 1e4, "{remedy:?}: {measured:?}");
    }
}

#[test]
fn pinned_threads_use_the_cpus_of_the_list() {
    let on = |cpus: &str| {
        let text = format!("placement = \"{cpus}\"\noutside_ns = 0\nsteps = [{{ add = \"it\" }}]");
        run(&read(&text), 2).per_sec
    };
    // Of one core, and of two packages.
    assert!(on("0,1") > 3.0 * on("0,15"), "{} {}", on("0,1"), on("0,15"));
}

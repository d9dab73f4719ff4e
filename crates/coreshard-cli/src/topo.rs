//! `coreshard topo`: what a machine looks like, and the pods of each affinity scope on it.

mod boxes;
mod json;
mod svg;
mod table;

use coreshard_topology::{CpuKind, CpuSet, Pods, Scope, ShardSize, Topology};

use crate::machine::{Machine, MachineArgs};
use crate::number::whole;
use crate::output;

/// The options of `coreshard topo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    machine: MachineArgs,

    /// Wanted number of cores in a cache shard [default: 8]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = whole::<usize, 0, 65_536>)]
    shard_size: Option<usize>,

    /// How to show it
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// A drawing
    Svg,
}

/// What is shown, in any format.
struct View {
    machine: Machine,
    shard_size: ShardSize,
    /// In the order of [`Scope::ALL`].
    scopes: Vec<Pods>,
    /// What was assumed or corrected, one sentence each.
    notes: Vec<String>,
}

impl View {
    fn new(machine: Machine, asked_size: Option<usize>) -> anyhow::Result<Self> {
        let shard_size = asked_size.map_or(ShardSize::DEFAULT, ShardSize::new);
        let topology = &machine.topology;
        let lay_out = |scope| Pods::new(topology, topology.online(), scope, shard_size);
        let scopes = Scope::ALL.into_iter().map(lay_out).collect::<Result<Vec<_>, _>>()?;
        let mut view = Self { machine, shard_size, scopes, notes: Vec::new() };
        view.notes = view.gather_notes(asked_size.is_some());
        Ok(view)
    }

    fn topology(&self) -> &Topology {
        &self.machine.topology
    }

    fn pods(&self, scope: Scope) -> &Pods {
        // Scopes are laid out in this order, and an enum's numbers are in the order of its variants.
        &self.scopes[scope as usize]
    }

    fn shards(&self) -> &Pods {
        self.pods(Scope::CacheShard)
    }

    /// The title of the machine, and its name where that says more.
    fn title(&self) -> String {
        let name = self.topology().name();
        match self.topology().model() {
            Some(model) => format!("{model} ({name})"),
            None => name.to_owned(),
        }
    }

    /// The CPUs of a kind.
    fn cpus_of_kind(&self, kind: CpuKind) -> CpuSet {
        let cpus = self.topology().cpus().iter().filter(|cpu| cpu.kind == kind);
        cpus.map(|cpu| cpu.id).collect()
    }

    fn gather_notes(&self, size_was_asked: bool) -> Vec<String> {
        let mut notes = self.topology().notes().to_vec();
        if self.shard_size.was_corrected() {
            notes.push("shard size 0 was corrected to 1".to_owned());
        }
        let largest = self.pods(Scope::Cache).iter().map(|pod| pod.cores).max().unwrap_or(0);
        if size_was_asked && self.shard_size.cores() > largest {
            let cores = if largest == 1 { "1 core".to_owned() } else { format!("{largest} cores") };
            notes.push(format!(
                "shard size {} is beyond the {cores} of the largest last-level cache: every cache is one shard",
                self.shard_size
            ));
        }
        notes.extend(self.collapses());
        notes
    }

    /// Scopes that come to the same pods, as on machines with few CPUs.
    fn collapses(&self) -> Option<String> {
        let mut groups: Vec<Vec<&Pods>> = Vec::new();
        for pods in &self.scopes {
            match groups.last_mut() {
                Some(group) if group[0].same_layout(pods) => group.push(pods),
                _ => groups.push(vec![pods]),
            }
        }
        let equal = groups.iter().filter(|group| group.len() > 1).map(|group| {
            let names: Vec<&str> = group.iter().map(|pods| pods.scope().name()).collect();
            format!("{} ({})", names.join(" = "), counted(group[0].len(), "pod"))
        });
        let equal: Vec<String> = equal.collect();
        (!equal.is_empty()).then(|| format!("scopes with the same pods here: {}", equal.join(", ")))
    }
}

/// `1 pod`, `2 pods`.
fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let view = View::new(args.machine.read()?, args.shard_size)?;
    let text = match args.format {
        Format::Table => table::render(&view),
        Format::Json => json::render(&view)?,
        Format::Svg => svg::render(&view),
    };
    if args.format != Format::Table {
        for note in &view.notes {
            output::warn(&format!("note: {note}"));
        }
    }
    output::print(&text)
}

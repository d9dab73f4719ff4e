//! Which machine a command is about: the one option that chooses it, the one grammar that it has, and what
//! may be used of the machine.

use std::path::Path;

use anyhow::Context;
use coreshard_bench::BenchMachine;
use coreshard_sim::Machine as Simulated;
use coreshard_topology::{CpuSet, Preset, Topology, TopologyError, Usable, input};

use super::failure::bad_input;

/// The name of a small machine, made for searches.
const POCKET: &str = "pocket";

/// Chooses a machine; without this option it is the one the command runs on.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct MachineArgs {
    /// The machine: a preset's name (such as grace, or pocket, which is small), a description as hwloc's
    /// ("pack:2 numa:1 l3:1 core:8 pu:2"), a file of `coreshard calibrate` (.toml) or of hwloc (lstopo
    /// machine.xml), or the folder that holds a recorded machine's sys folder, and perhaps its proc folder.
    /// Benchmarks simulate it with --sim, and else lay it over the real CPUs where they can (bench queue)
    #[arg(long, value_name = "MACHINE", aliases = ["sysfs", "hwloc-xml"], value_parser = ChosenMachine::parse)]
    machine: Option<ChosenMachine>,
}

/// What was given with `--machine`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChosenMachine {
    text: String,
    form: Form,
}

/// The forms of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A preset, or the small machine.
    Named,
    /// hwloc's synthetic description, or what is none of the other forms.
    Described,
    /// A machine's file, with its costs.
    Calibrated,
    Hwloc,
    /// The folder above a `sys` folder.
    Recorded,
}

/// A machine, cut to the CPUs that may be used.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Of the usable CPUs alone.
    pub(crate) topology: Topology,
    /// Of all CPUs online, usable or not: what the machine has.
    pub(crate) whole: Topology,
    /// What limits a process on it: for this machine, and for recorded ones as far as was recorded.
    pub(crate) usable: Option<Usable>,
}

impl Machine {
    /// The CPUs that may be used.
    pub(crate) fn usable_cpus(&self) -> &CpuSet {
        self.topology.online()
    }

    /// The most workers that can be kept running at once.
    pub(crate) fn worker_limit(&self) -> usize {
        match &self.usable {
            Some(usable) => usable.worker_limit(),
            None => self.usable_cpus().len(),
        }
    }

    /// The one that the command runs on.
    pub(crate) fn here() -> anyhow::Result<Self> {
        let topology = Topology::host()?;
        let usable = Usable::host(&topology)?;
        Ok(cut(topology, usable)?)
    }
}

impl MachineArgs {
    /// As if this had been given.
    pub(crate) fn of(machine: &str) -> Self {
        Self { machine: Some(ChosenMachine::of(machine)) }
    }

    /// False for the machine that the command runs on.
    pub(crate) fn is_given(&self) -> bool {
        self.machine.is_some()
    }

    /// What was given.
    pub(crate) fn name(&self) -> &str {
        self.machine.as_ref().map_or("", |machine| &machine.text)
    }

    /// What was given, for whoever is in another folder: a file by its whole path.
    pub(crate) fn lasting_name(&self) -> anyhow::Result<String> {
        let machine = self.machine.as_ref().context("no machine was given")?;
        if matches!(machine.form, Form::Named | Form::Described) {
            return Ok(machine.text.clone());
        }
        let path = std::fs::canonicalize(machine.path())?;
        let text = path.to_str().context("a machine's path that is no text cannot be kept")?;
        Ok(text.to_owned())
    }

    /// Reads the machine.
    pub(crate) fn read(&self) -> anyhow::Result<Machine> {
        self.machine.as_ref().map_or_else(Machine::here, ChosenMachine::read)
    }

    /// The folder that holds the machine's `sys` folder, where one does.
    pub(crate) fn root(&self) -> Option<&Path> {
        match &self.machine {
            None => Some(Path::new("/")),
            Some(machine) => (machine.form == Form::Recorded).then(|| machine.path()),
        }
    }

    /// The machine to be simulated; `None` where none was given.
    pub(crate) fn simulated(&self) -> anyhow::Result<Option<Simulated>> {
        self.machine.as_ref().map(ChosenMachine::simulated).transpose()
    }

    /// The machine to be simulated, of a command that has no other.
    pub(crate) fn must_be_simulated(&self) -> anyhow::Result<Simulated> {
        self.simulated()?.context("no machine was given")
    }

    /// All of the simulated machine that was chosen, under the name that results give it.
    pub(crate) fn bench_machine(&self, machine: &Simulated) -> BenchMachine {
        let topology = machine.topology().clone();
        let name = match &self.machine {
            Some(chosen) => chosen.known_as(topology.name()),
            None => topology.name().to_owned(),
        };
        BenchMachine::whole(name, "sim", topology)
    }
}

impl ChosenMachine {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self::of(text))
    }

    fn of(text: &str) -> Self {
        let name = text.trim();
        let path = Path::new(text);
        let is = |ending| path.extension().is_some_and(|its| its.eq_ignore_ascii_case(ending));
        let form = if name == POCKET || Preset::names().any(|preset| preset == name) {
            return Self { text: name.to_owned(), form: Form::Named };
        } else if path.is_dir() {
            Form::Recorded
        } else if is("toml") {
            Form::Calibrated
        } else if is("xml") || path.exists() {
            Form::Hwloc
        } else if text.contains('/') {
            Form::Recorded
        } else {
            Form::Described
        };
        Self { text: text.to_owned(), form }
    }

    fn path(&self) -> &Path {
        Path::new(&self.text)
    }

    fn read(&self) -> anyhow::Result<Machine> {
        let topology = match self.form {
            Form::Named if self.text == POCKET => Simulated::pocket().topology().clone(),
            Form::Calibrated => self.simulated()?.topology().clone(),
            Form::Named | Form::Described => {
                Topology::parse_machine(&self.text).map_err(described)?
            }
            Form::Hwloc => Topology::from_hwloc_xml(self.path()).map_err(bad_input)?,
            Form::Recorded => {
                let read = || {
                    let topology = Topology::from_sysfs(self.path())?;
                    let usable = Usable::from_root(self.path(), &topology)?;
                    cut(topology, usable)
                };
                return read().map_err(bad_input);
            }
        };
        Ok(Machine { whole: topology.clone(), topology, usable: None })
    }

    /// One of which no costs are known has those of the small one.
    fn simulated(&self) -> anyhow::Result<Simulated> {
        let machine = match self.form {
            Form::Named if self.text == POCKET => return Ok(Simulated::pocket()),
            Form::Named => Simulated::named(&self.text),
            Form::Calibrated => Simulated::from_file(self.path()),
            Form::Described | Form::Hwloc | Form::Recorded => {
                Simulated::with_round_costs(self.read()?.topology)
            }
        };
        machine.map_err(bad_input)
    }

    /// What results call it, whose topology is known as `topology`: by its name, or by its file as well, and
    /// whose costs it has where they are not its own.
    fn known_as(&self, topology: &str) -> String {
        let name = match self.form {
            Form::Named => self.text.clone(),
            Form::Calibrated | Form::Hwloc => {
                let file = self.path().file_name().unwrap_or(self.path().as_os_str());
                format!("{}: {topology}", input::path(Path::new(file)))
            }
            Form::Described | Form::Recorded => topology.to_owned(),
        };
        match self.form {
            Form::Named | Form::Calibrated => name,
            _ => format!("{name} (with a server's costs, in round figures)"),
        }
    }
}

/// What else a machine may be asked for by, where its name is unknown.
fn described(error: TopologyError) -> anyhow::Error {
    if !error.is_unknown_machine() {
        return bad_input(error);
    }
    bad_input(anyhow::anyhow!(
        "{error}; besides, {POCKET}, files (MACHINE.toml of coreshard calibrate, hwloc's .xml), and folders that \
         hold a recorded machine's sys folder"
    ))
}

fn cut(whole: Topology, usable: Usable) -> Result<Machine, TopologyError> {
    Ok(Machine { topology: whole.restrict(usable.cpus())?, whole, usable: Some(usable) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_told_by_the_text() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        let file = format!("{folder}/exported");
        std::fs::write(&file, "<topology/>").unwrap();
        for (text, form) in [
            ("grace", Form::Named),
            (" pocket ", Form::Named),
            ("pack:2 l3:4 core:8 pu:2", Form::Described),
            ("2 4 2", Form::Described),
            ("graec", Form::Described),
            ("here.toml", Form::Calibrated),
            ("no/such.XML", Form::Hwloc),
            (&file, Form::Hwloc),
            (folder, Form::Recorded),
            ("/no/such", Form::Recorded),
        ] {
            assert_eq!(ChosenMachine::of(text).form, form, "{text}");
        }
    }
}

//! The option `--machine`, its grammar, and the CPUs that may be used.

use std::path::Path;

use anyhow::Context;
use coreshard_bench::BenchMachine;
use coreshard_sim::Machine as Simulated;
use coreshard_topology::{CpuSet, Preset, Topology, TopologyError, Usable, input};

use super::failure::bad_input;

/// The name of a small machine for searches.
const POCKET: &str = "pocket";

/// Chooses a machine. Without the option it is the one the command runs on.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct MachineArgs {
    /// The machine: a preset, description, file or folder; see coreshard topo --help
    #[arg(long, value_name = "MACHINE", aliases = ["sysfs", "hwloc-xml"], value_parser = ChosenMachine::parse)]
    machine: Option<ChosenMachine>,
}

/// The value of `--machine`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChosenMachine {
    text: String,
    form: Form,
}

/// The forms of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A preset, or the small machine.
    Named,
    /// An hwloc synthetic description, or anything that has no other form.
    Described,
    /// A machine file with costs.
    Calibrated,
    Hwloc,
    /// A folder with a `sys` folder in it.
    Recorded,
}

/// A machine, restricted to the CPUs that may be used.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The usable CPUs.
    pub(crate) topology: Topology,
    /// All online CPUs, usable or not.
    pub(crate) whole: Topology,
    /// The limits of a process on this machine, or those recorded with a recorded machine.
    pub(crate) usable: Option<Usable>,
}

impl Machine {
    /// Returns the CPUs that may be used.
    pub(crate) fn usable_cpus(&self) -> &CpuSet {
        self.topology.online()
    }

    /// Returns the most workers that can run at once.
    pub(crate) fn worker_limit(&self) -> usize {
        match &self.usable {
            Some(usable) => usable.worker_limit(),
            None => self.usable_cpus().len(),
        }
    }

    /// Reads the machine that the command runs on.
    pub(crate) fn here() -> anyhow::Result<Self> {
        let topology = Topology::host()?;
        let usable = Usable::host(&topology)?;
        Ok(cut(topology, usable)?)
    }
}

impl MachineArgs {
    /// Returns the arguments for a given machine.
    pub(crate) fn of(machine: &str) -> Self {
        Self { machine: Some(ChosenMachine::of(machine)) }
    }

    /// Returns true if `--machine` was given.
    pub(crate) fn is_given(&self) -> bool {
        self.machine.is_some()
    }

    /// Returns the value of the option.
    pub(crate) fn name(&self) -> &str {
        self.machine.as_ref().map_or("", |machine| &machine.text)
    }

    /// Returns the value in a form that is valid in any folder: files have absolute paths.
    pub(crate) fn lasting_name(&self) -> anyhow::Result<String> {
        let machine = self.machine.as_ref().context("expected --machine")?;
        if matches!(machine.form, Form::Named | Form::Described) {
            return Ok(machine.text.clone());
        }
        let path = std::fs::canonicalize(machine.path())?;
        let text = path.to_str().context("invalid machine path: expected UTF-8")?;
        Ok(text.to_owned())
    }

    /// Reads the machine.
    pub(crate) fn read(&self) -> anyhow::Result<Machine> {
        self.machine.as_ref().map_or_else(Machine::here, ChosenMachine::read)
    }

    /// Returns the folder that holds the machine's `sys` folder, if the machine is recorded.
    pub(crate) fn root(&self) -> Option<&Path> {
        match &self.machine {
            None => Some(Path::new("/")),
            Some(machine) => (machine.form == Form::Recorded).then(|| machine.path()),
        }
    }

    /// Returns the machine to simulate, or `None` if the option was not given.
    pub(crate) fn simulated(&self) -> anyhow::Result<Option<Simulated>> {
        self.machine.as_ref().map(ChosenMachine::simulated).transpose()
    }

    /// Returns the machine to simulate, for commands that require one.
    pub(crate) fn must_be_simulated(&self) -> anyhow::Result<Simulated> {
        self.simulated()?.context("expected --machine")
    }

    /// Describes the whole simulated machine for a benchmark, with the name that results give it.
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

    /// A machine without costs is simulated with the costs of the small machine.
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

    /// Returns the name in results, for a machine whose topology is named `topology`: that name, or the file's name as
    /// well, and the source of its costs if they are not its own.
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
            _ => format!("{name} (with a server's rounded costs)"),
        }
    }
}

/// Adds the other forms to the error about an unknown name.
fn described(error: TopologyError) -> anyhow::Error {
    if !error.is_unknown_machine() {
        return bad_input(error);
    }
    bad_input(anyhow::anyhow!(
        "{error}; also accepted: {POCKET}, a .toml file of coreshard calibrate, an .xml file of lstopo, a folder with a recorded machine's sys folder"
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

//! Which machine a command is about: the one option that chooses it, the one grammar that it has, and what
//! may be used of the machine.

use std::path::Path;

use anyhow::Context;
use coreshard_sim::Machine as Simulated;
use coreshard_topology::{CpuSet, Preset, Topology, TopologyError, Usable, input};

use crate::failure::bad_input;

/// The name of a small machine, made for searches.
const POCKET: &str = "pocket";

/// Chooses a machine; without this option it is the one the command runs on.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct MachineArgs {
    /// The machine: a preset's name (such as grace, or pocket, which is small), a description as hwloc's
    /// ("pack:2 numa:1 l3:1 core:8 pu:2"), a file of `coreshard calibrate` (.toml) or of hwloc (lstopo
    /// machine.xml), or the folder that holds a recorded machine's sys folder, and perhaps its proc folder.
    /// Benchmarks simulate it with --sim, and else lay it over the real CPUs where they can (bench queue)
    #[arg(long, value_name = "MACHINE", aliases = ["sysfs", "hwloc-xml"])]
    machine: Option<String>,
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
    /// What was given; `None` for the machine that the command runs on.
    pub(crate) fn name(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// As if this had been given.
    pub(crate) fn of(machine: &str) -> Self {
        Self { machine: Some(machine.to_owned()) }
    }

    /// What was given, for whoever is in another folder: a file by its whole path.
    pub(crate) fn lasting_name(&self) -> anyhow::Result<String> {
        let name = self.name().context("no machine was given")?;
        let path = match Form::of(name) {
            Form::Named(name) | Form::Described(name) => return Ok(name.to_owned()),
            Form::Calibrated(path) | Form::Hwloc(path) | Form::Recorded(path) => path,
        };
        let path = std::fs::canonicalize(path)?;
        let text = path.to_str().context("a machine's path that is no text cannot be kept")?;
        Ok(text.to_owned())
    }

    /// Reads the machine.
    pub(crate) fn read(&self) -> anyhow::Result<Machine> {
        self.name().map_or_else(Machine::here, |text| Form::of(text).read())
    }

    /// The folder that holds the machine's `sys` folder, where one does.
    pub(crate) fn root(&self) -> Option<&Path> {
        match self.name().map(Form::of) {
            None => Some(Path::new("/")),
            Some(Form::Recorded(root)) => Some(root),
            Some(_) => None,
        }
    }

    /// The machine to be simulated; `None` where none was given.
    pub(crate) fn simulated(&self) -> anyhow::Result<Option<Simulated>> {
        self.name().map(|text| Form::of(text).simulated()).transpose()
    }

    /// What results call it, whose topology is known as `topology`: by its name, or by its file as well.
    pub(crate) fn known_as(&self, topology: &str) -> String {
        match self.name().map(Form::of) {
            Some(Form::Named(name)) => name.to_owned(),
            Some(Form::Calibrated(path) | Form::Hwloc(path)) => {
                let file = path.file_name().unwrap_or(path.as_os_str());
                format!("{}: {topology}", input::path(Path::new(file)))
            }
            _ => topology.to_owned(),
        }
    }

    /// What its name is to be followed by in results of a simulation: whose costs it has, where they are
    /// not its own.
    pub(crate) fn remark(&self) -> &'static str {
        match self.name().map(Form::of) {
            Some(Form::Described(_) | Form::Hwloc(_) | Form::Recorded(_)) => {
                " (with a server's costs, in round figures)"
            }
            _ => "",
        }
    }
}

/// A form of the grammar, with what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form<'text> {
    /// A preset, or the small machine.
    Named(&'text str),
    /// hwloc's synthetic description, or what is none of the other forms.
    Described(&'text str),
    /// A machine's file, with its costs.
    Calibrated(&'text Path),
    Hwloc(&'text Path),
    /// The folder above a `sys` folder.
    Recorded(&'text Path),
}

impl<'text> Form<'text> {
    fn of(text: &'text str) -> Self {
        let name = text.trim();
        let path = Path::new(text);
        let is = |ending| path.extension().is_some_and(|its| its.eq_ignore_ascii_case(ending));
        if name == POCKET || Preset::names().any(|preset| preset == name) {
            Self::Named(name)
        } else if path.is_dir() {
            Self::Recorded(path)
        } else if is("toml") {
            Self::Calibrated(path)
        } else if is("xml") || path.exists() {
            Self::Hwloc(path)
        } else if text.contains('/') {
            Self::Recorded(path)
        } else {
            Self::Described(text)
        }
    }

    fn read(self) -> anyhow::Result<Machine> {
        let topology = match self {
            Self::Named(POCKET) | Self::Calibrated(_) => self.simulated()?.topology().clone(),
            Self::Named(text) | Self::Described(text) => {
                Topology::parse_machine(text).map_err(described)?
            }
            Self::Hwloc(path) => Topology::from_hwloc_xml(path).map_err(bad_input)?,
            Self::Recorded(root) => {
                let read = || {
                    let topology = Topology::from_sysfs(root)?;
                    let usable = Usable::from_root(root, &topology)?;
                    cut(topology, usable)
                };
                return read().map_err(bad_input);
            }
        };
        Ok(Machine { whole: topology.clone(), topology, usable: None })
    }

    /// One of which no costs are known has those of the small one.
    fn simulated(self) -> anyhow::Result<Simulated> {
        let machine = match self {
            Self::Named(POCKET) => return Ok(Simulated::pocket()),
            Self::Named(name) => Simulated::named(name),
            Self::Calibrated(path) => Simulated::from_file(path),
            Self::Described(_) | Self::Hwloc(_) | Self::Recorded(_) => {
                Simulated::with_round_costs(self.read()?.topology)
            }
        };
        machine.map_err(bad_input)
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
            ("grace", Form::Named("grace")),
            (" pocket ", Form::Named("pocket")),
            ("pack:2 l3:4 core:8 pu:2", Form::Described("pack:2 l3:4 core:8 pu:2")),
            ("2 4 2", Form::Described("2 4 2")),
            ("graec", Form::Described("graec")),
            ("here.toml", Form::Calibrated(Path::new("here.toml"))),
            ("no/such.XML", Form::Hwloc(Path::new("no/such.XML"))),
            (&file, Form::Hwloc(Path::new(&file))),
            (folder, Form::Recorded(Path::new(folder))),
            ("/no/such", Form::Recorded(Path::new("/no/such"))),
        ] {
            assert_eq!(Form::of(text), form, "{text}");
        }
    }
}

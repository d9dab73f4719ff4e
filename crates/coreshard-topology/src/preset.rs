//! Machines with names.
//!
//! Each is a file in `presets/` with `title`, `synthetic` (see [`Topology::from_synthetic`]) and `source`. Tables such
//! as `[costs]` belong to other crates and are ignored. Any other key is an error.

use toml::de::{DeTable, DeValue};

use crate::{Topology, TopologyError, synthetic};

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../presets/", $name, ".toml")))),*]
    };
}

/// Name and content of each preset.
const FILES: &[(&str, &str)] = presets![
    "grace",
    "epyc-9654-2s",
    "epyc-9754-2s",
    "epyc-7763-2s",
    "xeon-8375c-2s",
    "xeon-hcc-2s",
    "graviton3",
    "graviton4",
    "kunpeng-920",
];

/// A machine with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    name: &'static str,
    file: &'static str,
    title: String,
    synthetic: String,
    source: Vec<String>,
}

impl Preset {
    /// Returns the names of all presets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// Returns the preset with this name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn named(name: &str) -> Result<Self, TopologyError> {
        match FILES.iter().find(|(known, _)| *known == name) {
            Some((name, file)) => Self::read(name, file),
            None => {
                let names: Vec<&str> = Self::names().collect();
                Err(TopologyError::unknown_machine(name, &names))
            }
        }
    }

    pub(crate) fn all() -> Result<Vec<Self>, TopologyError> {
        FILES.iter().map(|(name, file)| Self::read(name, file)).collect()
    }

    fn read(name: &'static str, file: &'static str) -> Result<Self, TopologyError> {
        let wrong = |problem: String| TopologyError::preset(name, problem);
        let table = DeTable::parse(file).map_err(|error| wrong(error.message().to_owned()))?;
        let mut preset =
            Self { name, file, title: String::new(), synthetic: String::new(), source: Vec::new() };
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("title", DeValue::String(text)) => preset.title = text.to_string(),
                ("synthetic", DeValue::String(text)) => preset.synthetic = text.to_string(),
                ("source", DeValue::Array(items)) => {
                    for item in items.iter().map(|item| item.get_ref()) {
                        let text = item
                            .as_str()
                            .ok_or_else(|| wrong("expected text as a source".into()))?;
                        preset.source.push(text.to_owned());
                    }
                }
                (_, DeValue::Table(_)) => {}
                (key, _) => {
                    return Err(wrong(format!(
                        "unexpected key {key:?}, or a value of the wrong type"
                    )));
                }
            }
        }
        if preset.title.is_empty() || preset.synthetic.is_empty() || preset.source.is_empty() {
            return Err(wrong("expected title, synthetic and source".into()));
        }
        Ok(preset)
    }

    /// Returns the name, such as `epyc-9654-2s`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the description.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the synthetic string.
    pub fn synthetic(&self) -> &str {
        &self.synthetic
    }

    /// Returns the sources of the figures.
    pub fn source(&self) -> &[String] {
        &self.source
    }

    /// Returns the whole file as TOML, for other crates that read more of it.
    pub const fn file(&self) -> &'static str {
        self.file
    }

    /// Builds the machine.
    ///
    /// # Errors
    ///
    /// If the synthetic string is invalid, which is a bug in the file.
    pub fn topology(&self) -> Result<Topology, TopologyError> {
        let mut topology = synthetic::topology(&self.synthetic)?;
        topology.rename(self.name);
        topology.set_model(self.title.clone());
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, then CPUs, cores, LLCs, nodes and packages.
    const EXPECTED: &[(&str, [usize; 5])] = &[
        ("grace", [72, 72, 1, 1, 1]),
        ("epyc-9654-2s", [384, 192, 24, 2, 2]),
        ("epyc-9754-2s", [512, 256, 32, 2, 2]),
        ("epyc-7763-2s", [256, 128, 16, 2, 2]),
        ("xeon-8375c-2s", [128, 64, 2, 2, 2]),
        ("xeon-hcc-2s", [480, 240, 2, 2, 2]),
        ("graviton3", [64, 64, 1, 1, 1]),
        ("graviton4", [96, 96, 1, 1, 1]),
        ("kunpeng-920", [64, 64, 2, 2, 1]),
    ];

    #[test]
    fn every_preset_is_the_machine_it_names() {
        let presets = Topology::presets().unwrap();
        assert_eq!(presets.len(), EXPECTED.len());
        for (preset, (name, counts)) in presets.iter().zip(EXPECTED.iter().copied()) {
            let machine = preset.topology().unwrap();
            assert_eq!(preset.name(), name);
            assert_eq!(machine.name(), name);
            assert_eq!(machine.model(), Some(preset.title()));
            let found = [
                machine.cpus().len(),
                machine.cores(),
                machine.llcs(),
                machine.nodes(),
                machine.packages(),
            ];
            assert_eq!(found, counts, "{name}");
            assert_eq!(machine.notes(), [""; 0], "{name}");
        }
    }

    /// A file that `FILES` does not list would be unknown to all commands.
    #[test]
    fn every_file_in_the_folder_is_named() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/presets");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> =
            files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        let mut names: Vec<_> = Preset::names().collect();
        files.sort();
        names.sort_unstable();
        assert_eq!(files, names, "name it in FILES, and its counts in EXPECTED");
    }

    /// The preset shown in `docs/CONTRIBUTING.md` is valid.
    #[test]
    fn the_preset_of_the_walk_through_is_one() {
        let text = include_str!("../../../docs/CONTRIBUTING.md");
        let file = text.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```"));
        let preset = Preset::read("example", file.expect("it shows a file").0).unwrap();
        let machine = preset.topology().unwrap();
        assert_eq!([machine.cpus().len(), machine.cores(), machine.packages()], [16, 8, 2]);
    }

    #[test]
    fn tables_are_let_through_and_other_keys_are_not() {
        let file = "title='t'\nsynthetic='pu:1'\nsource=['s']\n[costs]\nhop_ns=1\n";
        assert_eq!(Preset::read("x", file).unwrap().file(), file);
        for wrong in ["title='t'\n", "titel='t'\n", "title=1\n", "title='", "source=[1]\n"] {
            assert!(Preset::read("x", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_machine_is_a_name_or_a_description() {
        assert_eq!(Topology::parse_machine("grace").unwrap().cores(), 72);
        assert_eq!(Topology::parse_machine("core:6 pu:2").unwrap().cores(), 6);
        assert_eq!(Topology::parse_machine("2 4 2").unwrap().cpus().len(), 16);
        let error = Topology::parse_machine("graec").unwrap_err();
        assert!(error.is_unknown_machine());
        let error = error.to_string();
        assert!(error.contains("\"graec\"") && error.contains("kunpeng-920"), "{error}");
        assert!(Topology::parse_machine("").is_err());
        assert!(!Topology::parse_machine("core:0").unwrap_err().is_unknown_machine());
    }
}

//! `coreshard layout`: shows the layout of a program's types on cache lines.

mod svg;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use coreshard_topology::input;
use coreshard_trace::{
    Binary, DebugSource, Layout, TypeTable, latent_sharing, most_mixed, most_wasteful,
    propose_layouts,
};

use crate::common::{JsonArgs, MachineArgs, bad_input, bail_input, few, output};
use crate::replay::PlacementArgs;

/// Maximum size of a file with BTF. The kernel's has 6 MB, and one with all modules about 30 MB.
const MOST_BTF_BYTES: u64 = 1 << 30;

/// The options of `coreshard layout`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Program or library with debug information; omit it with --btf or --replay
    #[arg(value_name = "BINARY")]
    binary: Option<String>,

    /// A struct, union, class or enum [default: the types that waste most, and types with atomics or locks beside other
    /// fields]
    #[arg(value_name = "TYPE")]
    of: Option<String>,

    /// Read BTF, such as the kernel's in /sys/kernel/btf/vmlinux, instead of a program
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,

    /// Propose layouts for the contended types of this recording, each with its predicted gain on --machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["binary", "btf", "all"], requires = "machine")]
    replay: Option<PathBuf>,

    /// With --replay: keep this field at its offset; may be repeated
    #[arg(long = "pin", value_name = "FIELD", requires = "replay")]
    pinned: Vec<String>,

    /// With --replay: show false sharing that would appear at other addresses, shifted by a multiple of 8 bytes, or on
    /// lines of 128 bytes
    #[arg(long, requires = "replay", conflicts_with = "pinned")]
    latent: bool,

    #[command(flatten)]
    machine: MachineArgs,

    #[command(flatten)]
    placement: PlacementArgs,

    /// Length of a cache line in bytes; with --replay, the length on --machine is used
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = line_bytes, conflicts_with = "replay")]
    line_bytes: u64,

    /// Number of types in each list
    #[arg(long, value_name = "N", default_value = "15", value_parser = few)]
    most: std::num::NonZeroUsize,

    /// Show every type instead of lists of the worst ones
    #[arg(long, conflicts_with = "of")]
    all: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = LayoutFormat::Table)]
    format: LayoutFormat,

    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LayoutFormat {
    /// Text
    Table,
    /// A drawing of the lines
    Svg,
}

/// Parses the length of a line.
fn line_bytes(text: &str) -> Result<u64, String> {
    match text {
        "32" => Ok(32),
        "64" => Ok(64),
        "128" => Ok(128),
        "256" => Ok(256),
        _ => Err("expected 32, 64, 128 or 256".to_owned()),
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(file) = &args.replay {
        return propose(args, file);
    }
    let (types, name, of) = read(args)?;
    let layouts = match of {
        Some(of) => {
            let found = types.named(of);
            if found.is_empty() {
                let (of, name) = (input::quoted(of), input::quoted(&name));
                bail_input!("no type {of} in {name}{}", alike(&types, args));
            }
            found
        }
        None if args.all || args.format == LayoutFormat::Svg => types.records().collect(),
        None => return lists(args, &types, &name),
    };
    if args.format == LayoutFormat::Svg && of.is_none() {
        bail_input!("expected a TYPE: a drawing shows one type");
    }
    let layouts: Vec<_> =
        layouts.into_iter().filter_map(|id| Layout::of(&types, id, args.line_bytes)).collect();
    let text = || match args.format {
        LayoutFormat::Table => layouts.iter().map(table::layout).collect::<Vec<_>>().join("\n"),
        LayoutFormat::Svg => svg::layouts(&layouts),
    };
    args.json.open()?.print(&layouts, text)
}

/// Prints proposals for the types of a recording.
fn propose(args: &Args, file: &Path) -> anyhow::Result<()> {
    let machine = args.machine.must_be_simulated()?;
    let output = args.json.open()?;
    let recording = crate::replay::open(file)?;
    let mut options = args.placement.options_on(&machine, args.most.get())?;
    options.pinned.clone_from(&args.pinned);
    let wrong = |error| bad_input(anyhow!("{}: {error}", input::path(file)));
    if args.latent {
        let latent = latent_sharing(&recording, &machine, &options).map_err(wrong)?;
        if args.format == LayoutFormat::Svg {
            bail_input!("--latent accepts only the formats table and JSON");
        }
        return output.print(&latent, || table::latent(&latent));
    }
    let proposals = propose_layouts(&recording, &machine, &options).map_err(wrong)?;
    let has = |name: &String| {
        proposals.iter().any(|of| of.fields.iter().any(|field| field.name == *name))
    };
    if let Some(unknown) = args.pinned.iter().find(|name| !has(name)) {
        let all: Vec<_> =
            proposals.iter().flat_map(|of| &of.fields).map(|field| &*field.name).collect();
        bail_input!(
            "no contended type has a field {}: expected one of {}",
            input::quoted(unknown),
            input::plain(&all.join(", "))
        );
    }
    let text = || match args.format {
        LayoutFormat::Table => table::proposals(&proposals),
        LayoutFormat::Svg => svg::proposals(&proposals),
    };
    output.print(&proposals, text)
}

/// Explains why a type may be missing.
fn alike(types: &TypeTable, args: &Args) -> String {
    if let Some(why) = types.missing_note() {
        return format!("; {why}");
    }
    if types.is_empty() && args.btf.is_none() {
        return "; it has no types: compile with -g, or install its debug symbols".to_owned();
    }
    String::new()
}

/// Returns the types, their source, and the requested type.
fn read(args: &Args) -> anyhow::Result<(TypeTable, String, Option<&str>)> {
    if let Some(path) = &args.btf {
        if args.of.is_some() {
            bail_input!("unexpected BINARY: with --btf, give only TYPE");
        }
        let bytes = input::bytes(path, MOST_BTF_BYTES).map_err(bad_input)?;
        let types = TypeTable::from_btf(&bytes)
            .with_context(|| input::path(path).to_string())
            .map_err(bad_input)?;
        return Ok((types, path.display().to_string(), args.binary.as_deref()));
    }
    let binary = args.binary.as_deref();
    let binary = binary.ok_or_else(|| bad_input(anyhow!("expected a BINARY or --btf FILE")))?;
    let path = Path::new(binary);
    let wrong = || input::path(path).to_string();
    let opened = Binary::open(path).map_err(|error| bad_input(anyhow!("{}: {error}", wrong())))?;
    match opened.source() {
        DebugSource::Missing(why) => output::warn(&format!("note: {}: {why}", wrong())),
        DebugSource::Separate(file) => {
            output::warn(&format!("note: debug information is from {}", input::path(file)));
        }
        DebugSource::Itself => {}
    }
    let types = opened.types().with_context(wrong).map_err(bad_input)?;
    if let Some(why) = types.missing_note() {
        if types.is_empty() {
            bail_input!("{}: {why}", wrong());
        }
        output::warn(&format!("note: {}: {why}", wrong()));
    }
    Ok((types, binary.to_owned(), args.of.as_deref()))
}

fn lists(args: &Args, types: &TypeTable, name: &str) -> anyhow::Result<()> {
    let wasted = most_wasteful(types, args.line_bytes, args.most.get());
    let mixed = most_mixed(types, args.line_bytes, args.most.get());
    let both = serde_json::json!({ "most_wasteful": wasted, "most_mixed": mixed });
    let records = types.records().count();
    args.json.open()?.print(&both, || table::lists(name, records, &wasted, &mixed))
}

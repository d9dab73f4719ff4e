//! The command `coreshard`.
//!
//! This crate parses arguments, calls the libraries and prints. Each subcommand is a module with its `Args` and a
//! `run`. The exit status is 0 on success, 2 for unusable input (see [`common::bad_input`]), and 1 for any other
//! failure.

mod advise;
mod bench;
mod c2c;
mod calibrate;
mod common;
mod contend;
mod generate;
mod kernel;
mod layout;
mod record;
mod replay;
mod sim;
mod sweep;
mod top;
mod topo;
mod tune;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use coreshard_topology::input::quoted;

use common::output;

#[cfg(test)]
testing::watch!();

/// Serves a simulated program's memory from its simulation, so that equal runs are equal. Other memory comes from the
/// system allocator.
#[global_allocator]
static ALLOCATOR: coreshard_sim::SimAlloc = coreshard_sim::SimAlloc;

/// Shown after the help of `coreshard` itself.
const EXAMPLES: &str = "\
Examples:
  coreshard topo                show this machine: caches, NUMA nodes, pods
  coreshard bench queue         compare scopes, wake-ups and intakes on it
  coreshard topo --machine epyc-9654-2s --format svg > epyc.svg
                                draw a machine that you do not have";

/// Measure, simulate and tune many-core Linux machines
#[derive(Debug, Parser)]
#[command(name = "coreshard", version, max_term_width = 80, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a machine's caches, NUMA nodes, CPUs and pods
    Topo(topo::Args),
    /// Compare variants of the runtime, on this machine or a simulated one
    Bench(Box<bench::Args>),
    /// Recommend an affinity scope and a shard size
    Tune(tune::Args),
    /// Recommend kernel settings to change, and list those to keep
    Advise(Box<advise::Args>),
    /// Measure the costs of this machine, for simulations
    Calibrate(calibrate::Args),
    /// Monitor the queues and pools of a running process
    Top(top::Args),
    /// Show which cache lines and fields contend on a simulated machine
    C2c(c2c::Args),
    /// Predict a described contention, and what each remedy would give
    Contend(Box<contend::Args>),
    /// Run a program and record its memory accesses
    Record(Box<record::Args>),
    /// Boot a Linux kernel in emulation and record its memory accesses
    Kernel(kernel::Args),
    /// Replay a recording on a simulated machine; name contended fields
    Replay(Box<replay::Args>),
    /// Show how a program's types lie on cache lines
    Layout(Box<layout::Args>),
    /// Search the work queue for bugs in simulations, and replay them
    Sim(sim::Args),
    /// Run a study of many simulations with HyperQueue, Dask or a shell
    Sweep(sweep::Args),
    /// Generate completions, manual pages and the command reference
    Generate(generate::Args),
}

/// Width of the list of options in an error message, in columns.
const TIP_COLUMNS: usize = 72;

/// Adds the command's options to an error about an unknown option.
fn with_known_options(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let given = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    if error.kind() != ErrorKind::UnknownArgument || !given.is_some_and(|it| it.starts_with('-')) {
        return error;
    }
    let whole = command_line();
    let mut command = &whole;
    let mut name = whole.get_name().to_owned();
    for word in &words[1..] {
        let inner = command.get_subcommands().find(|it| word == it.get_name());
        let Some(inner) = inner else { continue };
        name = format!("{name} {}", inner.get_name());
        command = inner;
    }
    let mut tip = format!("{name} accepts");
    let mut columns = tip.len();
    let options = command.get_arguments().filter(|it| !it.is_hide_set());
    let mut options = options.filter_map(|it| it.get_long()).chain(["help"]).peekable();
    while let Some(option) = options.next() {
        let end = if options.peek().is_some() { "," } else { "" };
        let word = format!("--{option}{end}");
        if columns + 1 + word.len() > TIP_COLUMNS {
            // Indented below the first word, which follows "  tip: ".
            tip += "\n      ";
            columns = 0;
        }
        columns += 1 + word.len();
        tip = tip + " " + &word;
    }
    let mut tips = vec![tip.into()];
    if let Some(ContextValue::StyledStrs(others)) = error.get(ContextKind::Suggested) {
        tips = [others, &tips[..]].concat();
    }
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// Shortens quoted arguments and escapes control characters, which clap prints as they are.
fn bounded(mut error: clap::Error) -> clap::Error {
    let given = |(kind, value): (ContextKind, &ContextValue)| match value {
        ContextValue::String(text) => Some((kind, quoted(text).to_string())),
        _ => None,
    };
    let texts: Vec<_> = error.context().filter_map(given).collect();
    for (kind, text) in texts {
        // Clap adds its own quotes.
        let text = text[1..text.len() - 1].to_owned();
        error.insert(kind, ContextValue::String(text));
    }
    error
}

/// Builds the command line. Accepts negative numbers as option values, so that the option's own parser reports them.
fn command_line() -> clap::Command {
    fn with_numbers_below_zero(command: clap::Command) -> clap::Command {
        let command = command.mut_args(|arg| {
            if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg }
        });
        command.mut_subcommands(with_numbers_below_zero)
    }
    with_numbers_below_zero(Cli::command())
}

fn parse<W: Into<OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let matches = command_line().try_get_matches_from(&words);
    let matches = matches.map_err(|error| with_known_options(error, &words))?;
    Cli::from_arg_matches(&matches)
}

fn main() -> ExitCode {
    let done = match parse(std::env::args_os()) {
        Ok(cli) => run(cli),
        Err(error) => output::answer(&bounded(error)),
    };
    done.unwrap_or_else(|error| common::report(&error))
}

fn run(Cli { command }: Cli) -> anyhow::Result<ExitCode> {
    match command {
        Some(Command::Topo(args)) => topo::run(&args),
        Some(Command::Bench(args)) => bench::run(&args),
        Some(Command::Tune(args)) => tune::run(&args),
        Some(Command::Advise(args)) => advise::run(&args),
        Some(Command::Calibrate(args)) => calibrate::run(&args),
        Some(Command::C2c(args)) => c2c::run(&args),
        Some(Command::Contend(args)) => contend::run(&args),
        Some(Command::Record(args)) => return record::run(&args),
        Some(Command::Kernel(args)) => return kernel::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Layout(args)) => layout::run(&args),
        Some(Command::Top(args)) => top::run(&args),
        Some(Command::Sim(args)) => sim::run(&args),
        Some(Command::Sweep(args)) => sweep::run(&args),
        Some(Command::Generate(args)) => generate::run(&args, Cli::command()),
        None => output::print(&Cli::command().render_help().to_string()),
    }
    .map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../tests/all/shown.rs"]
mod shown;

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects every option of every subcommand, with the words that lead to it.
    fn options(command: &clap::Command, words: &[String], found: &mut Vec<(Vec<String>, String)>) {
        for option in command.get_arguments() {
            if let (Some(long), true) = (option.get_long(), option.get_action().takes_values()) {
                found.push((words.to_vec(), long.to_owned()));
            }
        }
        for inner in command.get_subcommands() {
            let words = [words, &[inner.get_name().to_owned()]].concat();
            options(inner, &words, found);
        }
    }

    /// The help of `--machine` and of the simulation options is the same in every command.
    #[test]
    fn machines_are_chosen_the_same_way_everywhere() {
        fn helps(command: &clap::Command, option: &str, found: &mut Vec<String>) {
            let its = command.get_arguments().filter(|it| it.get_long() == Some(option));
            found.extend(its.filter_map(|it| it.get_help().map(ToString::to_string)));
            command.get_subcommands().for_each(|inner| helps(inner, option, found));
        }
        for (option, commands) in [("machine", 18), ("sim", 8), ("costs", 8)] {
            let mut found = Vec::new();
            helps(&Cli::command(), option, &mut found);
            assert_eq!(found.len(), commands, "--{option}");
            assert!(found.windows(2).all(|two| two[0] == two[1]), "{found:#?}");
        }
    }

    /// Collects each command, with the words that lead to it.
    fn commands_of(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
        let words = format!("{words} {}", command.get_name()).trim_start().to_owned();
        if !command.has_subcommands() {
            found.push((words, command.clone()));
            return;
        }
        for inner in command.get_subcommands() {
            commands_of(inner, &words, found);
        }
    }

    /// Commands whose output is not a set of results.
    const WITHOUT_RESULTS: [&str; 14] = [
        "calibrate",
        "record",
        "kernel run",
        "kernel record",
        "sim search",
        "sim replay",
        "sweep plan",
        "sweep run",
        "sweep hyperqueue",
        "sweep gather",
        "generate completions",
        "generate man",
        "generate man-pages",
        "generate reference",
    ];

    #[test]
    fn json_is_one_option_with_one_meaning_in_every_command_with_results() {
        let mut all = Vec::new();
        commands_of(&Cli::command(), "", &mut all);
        let mut helps = std::collections::BTreeSet::new();
        for (words, command) in all {
            let json = command.get_arguments().find(|it| it.get_long() == Some("json"));
            let has_results = !WITHOUT_RESULTS.iter().any(|it| words == format!("coreshard {it}"));
            assert_eq!(json.is_some(), has_results, "{words}");
            let Some(json) = json else { continue };
            assert_eq!(json.get_num_args(), Some((0..=1).into()), "{words}");
            helps.insert(json.get_help().map(ToString::to_string));
            let formats = command.get_arguments().find(|it| it.get_long() == Some("format"));
            let formats = formats.map(|it| it.get_possible_values()).unwrap_or_default();
            assert!(formats.iter().all(|it| it.get_name() != "json"), "{words}: two ways");
        }
        assert_eq!(helps.len(), 1, "{helps:#?}");
    }

    #[test]
    fn an_unknown_option_is_answered_with_the_known_ones() {
        let mut all = Vec::new();
        commands_of(&Cli::command(), "", &mut all);
        for (words, command) in all {
            let given = words.split(' ').chain(["--no-such-option"]);
            let error = bounded(parse(given).unwrap_err()).to_string();
            for option in command.get_arguments().filter_map(|it| it.get_long()) {
                assert!(error.contains(&format!(" --{option}")), "{words}: --{option}: {error}");
            }
            assert!(
                error.lines().all(|line| line.len() <= 80 || line.starts_with("Usage")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_program_is_recorded_with_all_that_stands_behind_it() {
        for before in [&["record", "-o", "it"][..], &["record", "-o", "it", "--"]] {
            let program = ["./it", "-o", "x", "--json", "--", "y"];
            let words = ["coreshard"].iter().chain(before).chain(&program);
            let Some(Command::Record(args)) = parse(words).unwrap().command else { panic!() };
            assert_eq!(args.program(), program);
        }
    }

    /// The standard library's messages for a wrong number name neither the range nor the option.
    #[test]
    fn no_option_answers_in_a_parsers_own_words() {
        let mut found = Vec::new();
        options(&Cli::command(), &["coreshard".to_owned()], &mut found);
        assert!(found.len() > 60, "{found:?}");
        for (words, option) in found {
            for value in ["x", "0", "-1", "1.5", "", "99999999999999999999999999"] {
                let given = words.iter().cloned().chain([format!("--{option}"), value.to_owned()]);
                let Err(error) = parse(given) else { continue };
                let error = error.to_string();
                assert!(
                    !error.contains("unexpected argument"),
                    "{words:?} --{option} {value}: {error}"
                );
                for raw in [
                    "invalid digit",
                    "non-zero type",
                    "too large to fit",
                    "empty string",
                    "is not in",
                ] {
                    assert!(!error.contains(raw), "{words:?} --{option}={value}: {error}");
                }
            }
        }
    }

    /// Returns the commands of a page: lines of its code blocks that call `coreshard`, without redirections and
    /// comments.
    fn commands(page: &str) -> Vec<String> {
        let programs = page.split("```").skip(1).step_by(2);
        let lines = programs.flat_map(|program| program.lines().skip(1));
        let lines = lines.filter_map(|line| {
            let line = line.trim_start_matches("$ ");
            let line =
                line.strip_prefix("coreshard ").or(line.strip_prefix("cargo run --release -- "))?;
            // A line of a manifest.
            if line.starts_with('=') {
                return None;
            }
            let end =
                [" #", " > ", " | ", " >(", " && "].iter().filter_map(|mark| line.find(mark)).min();
            Some(line[..end.unwrap_or(line.len())].trim().to_owned())
        });
        lines.collect()
    }

    /// Every command in the documentation parses.
    #[test]
    fn every_command_of_the_documentation_is_one() {
        fn pages(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pages(&path, found);
                } else if path.extension().is_some_and(|it| it == "md") {
                    found.push(path);
                }
            }
        }
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = vec![root.join("README.md")];
        pages(&root.join("docs"), &mut found);
        // Usage lines contain placeholders, and results pages show commands of earlier versions.
        let results = root.join("docs/results");
        found
            .retain(|page| !page.ends_with("reference/commands.md") && !page.starts_with(&results));
        let (mut count, mut wrong) = (0, Vec::new());
        for page in found {
            let text = std::fs::read_to_string(&page).unwrap();
            for command in commands(&text) {
                let words = std::iter::once("coreshard".to_owned()).chain(words_of(&command));
                let error = parse(words).err().filter(clap::Error::use_stderr);
                wrong.extend(
                    error.map(|it| format!("{}: coreshard {command}: {it}", page.display())),
                );
                count += 1;
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(count > 15, "{count} commands were read");
    }

    /// Splits a command into words as a shell does, if only quotes are special.
    fn words_of(command: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for letter in command.chars() {
            match (quote, letter) {
                (None, '"' | '\'') => quote = Some(letter),
                (Some(open), close) if open == close => quote = None,
                (None, ' ') => words.push(String::new()),
                _ => words.last_mut().expect("there is always one").push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn no_option_gives_back_a_text_of_any_length() {
        let mut found = Vec::new();
        options(&Cli::command(), &["coreshard".to_owned()], &mut found);
        let long = "\u{1b}[2J".repeat(2_000);
        let as_value =
            found.into_iter().map(|(words, option)| (words, format!("--{option}={long}")));
        let alone = [long.clone(), format!("--{long}"), format!("-{long}")];
        let alone = alone.map(|word| (vec!["coreshard".to_owned()], word));
        for (words, given) in as_value.chain(alone) {
            let Err(error) = parse([&words[..], &[given]].concat()) else { continue };
            let error = bounded(error).to_string();
            assert!(error.len() < 3_000 && !error.contains('\u{1b}'), "{words:?}: {error}");
        }
    }

    /// Checks a command quoted in a page. Values may be file names or placeholders.
    fn is_understood(words: &[String]) -> Result<(), String> {
        use clap::error::ErrorKind::{
            DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion,
            MissingRequiredArgument, ValueValidation,
        };
        let is_file =
            |it: &String| it.contains(['.', '/']) || it.chars().all(|it| it.is_ascii_uppercase());
        let named: Vec<&str> =
            words.iter().map(|it| if it == "N" { "2" } else { it.as_str() }).collect();
        match parse(named) {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), DisplayHelp | DisplayVersion) => Ok(()),
            // A subcommand's name in a sentence.
            Err(error)
                if words.len() == 2
                    && matches!(
                        error.kind(),
                        DisplayHelpOnMissingArgumentOrSubcommand | MissingRequiredArgument
                    ) =>
            {
                Ok(())
            }
            // The file exists for the page's reader, not for this test.
            Err(error) if error.kind() == ValueValidation && words.iter().any(is_file) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn every_command_that_a_page_shows_is_understood() {
        let (mut wrong, mut count) = (Vec::new(), 0);
        for (page, command) in shown::everywhere() {
            for words in shown::programs(&command) {
                // A name, or a command with a placeholder.
                let is_whole =
                    words.len() > 1 && !words.iter().any(|it| it.contains(['…', '[', '<']));
                if words[0] != "coreshard" || !is_whole {
                    continue;
                }
                count += 1;
                if let Err(what) = is_understood(&words) {
                    wrong.push(format!("{}: {command}: {what}", page.display()));
                }
            }
        }
        assert!(count > 100, "{count} commands were found");
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn a_broken_option_is_caught() {
        for broken in ["topo --jsons", "bench queues", "tune --machine", "top --pid x", "topos"] {
            let words: Vec<_> =
                std::iter::once("coreshard").chain(broken.split(' ')).map(str::to_owned).collect();
            assert!(is_understood(&words).is_err(), "{broken}");
        }
    }
}

//! The command reference: `--help` of all commands as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Command};

const HEAD: &str = "\
# Commands

This page lists the commands and their options. `coreshard generate reference` makes it, and a test checks that it is
current. Every command also accepts `--help`, which prints the same text, and `coreshard topo` explains `--machine`.
";

/// An option that this many commands have in the same form is described once.
const SHARED_BY: usize = 3;

pub(super) fn markdown(mut command: Command) -> String {
    command = command.term_width(0);
    command.build();
    let mut uses = BTreeMap::new();
    count(&command, &mut uses);
    uses.retain(|_, count| *count >= SHARED_BY);
    let shared: Vec<String> = uses.into_keys().collect();

    let mut text = HEAD.to_owned();
    text.push_str("\n## Options of several commands\n\n| option | description |\n|---|---|\n");
    shared.iter().for_each(|row| text.push_str(row));
    for inner in shown(&command) {
        of(inner, &format!("coreshard {}", inner.get_name()), &shared, &mut text);
    }
    text
}

/// Counts the commands that have an option, by its row.
fn count(command: &Command, uses: &mut BTreeMap<String, usize>) {
    for inner in shown(command) {
        let options = inner.get_arguments().filter(|argument| argument.get_long().is_some());
        for argument in options.filter(is_its_own) {
            *uses.entry(row(argument)).or_default() += 1;
        }
        count(inner, uses);
    }
}

fn row(argument: &Arg) -> String {
    format!("| `{}` | {} |\n", signature(argument).replace('|', "\\|"), help(argument))
}

fn of(command: &Command, name: &str, shared: &[String], text: &mut String) {
    let _ = writeln!(text, "\n## {name}\n");
    if let Some(about) = command.get_about() {
        let _ = writeln!(text, "{}.", escaped(&about.to_string()));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = writeln!(text, "\n```text\n{usage}\n```");
    let arguments = command.get_arguments().filter(is_its_own);
    let (also, own): (Vec<_>, Vec<_>) =
        arguments.partition(|argument| shared.contains(&row(argument)));
    if !own.is_empty() {
        text.push_str("\n| option | description |\n|---|---|\n");
        own.into_iter().for_each(|argument| text.push_str(&row(argument)));
    }
    if !also.is_empty() {
        let names = also.into_iter().filter_map(Arg::get_long).map(|long| format!("`--{long}`"));
        let _ = writeln!(text, "\n{}", wrapped("Shared:", names));
    }
    if let Some(notes) = command.get_after_help() {
        let _ = writeln!(text, "\n```text\n{}\n```", notes.to_string().trim_end());
    }
    for inner in shown(command) {
        of(inner, &format!("{name} {}", inner.get_name()), shared, text);
    }
}

/// Joins words after `start`, in lines of at most 120 characters.
fn wrapped(start: &str, words: impl Iterator<Item = String>) -> String {
    let mut text = start.to_owned();
    let mut width = text.len();
    for word in words {
        let is_too_long = width + 1 + word.len() > 120;
        text.push(if is_too_long { '\n' } else { ' ' });
        width = if is_too_long { 0 } else { width + 1 } + word.len();
        text.push_str(&word);
    }
    text
}

/// Skips options that all commands have.
fn is_its_own(argument: &&Arg) -> bool {
    !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
}

fn signature(argument: &Arg) -> String {
    let values =
        argument.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>"));
    let values: Vec<_> = values.collect();
    let takes = argument.get_action().takes_values();
    match argument.get_long() {
        Some(long) if takes => format!("--{long} {}", values.join(" ")),
        Some(long) => format!("--{long}"),
        None => values.join(" "),
    }
}

fn help(argument: &Arg) -> String {
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut help = escaped(&help.replace('\n', " "));
    let possible: Vec<_> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(what) => format!("`{}` ({})", value.get_name(), escaped(&what.to_string())),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    // A flag's values are internal.
    if !possible.is_empty() && argument.get_action().takes_values() {
        let _ = write!(help, ": {}", possible.join(", "));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        let _ = write!(help, " (default: `{}`)", defaults.join(","));
    }
    help
}

/// Escapes characters with a meaning in Markdown.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('[', "\\[")
}

/// Returns the visible subcommands.
pub(super) fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

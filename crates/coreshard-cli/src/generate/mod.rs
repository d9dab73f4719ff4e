//! `coreshard generate`: completions, manual pages and the command reference.

mod reference;

use clap::{Command, ValueEnum};
use clap_complete::Shell;

use crate::common::{bail_input, output};
use reference::shown;

/// Shown after the options.
const NOTES: &str = "\
Examples:
  coreshard generate completions bash > ~/.local/share/bash-completion/completions/coreshard
  coreshard generate man bench queue | man -l -
  coreshard generate reference > docs/reference/commands.md";

/// The options of `coreshard generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print completions for a shell
    Completions {
        /// Shell
        #[arg(value_enum)]
        shell: ShellName,
    },
    /// Print a manual page in roff format
    Man {
        /// Names of the command and subcommand, such as: bench queue
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// List all manual pages, one per line, each with the words of its command
    ManPages,
    /// Print all commands and options as Markdown
    Reference,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShellName {
    Bash,
    Elvish,
    Fish,
    PowerShell,
    Zsh,
}

impl From<ShellName> for Shell {
    fn from(name: ShellName) -> Self {
        match name {
            ShellName::Bash => Self::Bash,
            ShellName::Elvish => Self::Elvish,
            ShellName::Fish => Self::Fish,
            ShellName::PowerShell => Self::PowerShell,
            ShellName::Zsh => Self::Zsh,
        }
    }
}

/// Runs the subcommand. The output is generated from `command`.
pub(crate) fn run(args: &Args, mut command: Command) -> anyhow::Result<()> {
    let text = match &args.what {
        What::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(Shell::from(*shell), &mut command, "coreshard", &mut script);
            String::from_utf8(script)?
        }
        What::Man { words } => man(command, words)?,
        What::ManPages => {
            command.build();
            pages(&command, &[])
        }
        What::Reference => reference::markdown(command),
    };
    output::print(&text)
}

fn man(mut command: Command, words: &[String]) -> anyhow::Result<String> {
    command.build();
    let mut found = &command;
    let mut name = "coreshard".to_owned();
    for word in words {
        let inner = shown(found).find(|inner| inner.get_name() == word);
        let Some(inner) = inner else {
            let names: Vec<_> = shown(found).map(Command::get_name).collect();
            let given = coreshard_topology::input::quoted(word).to_string();
            bail_input!(
                "invalid command {given} of {name}: expected {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            );
        };
        found = inner;
        name = format!("{name} {word}");
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(found.clone()).render(&mut page)?;
    Ok(String::from_utf8(page)?)
}

fn pages(command: &Command, words: &[&str]) -> String {
    let mut text = format!(
        "{}\t{}\n",
        ["coreshard"].iter().chain(words).copied().collect::<Vec<_>>().join("-"),
        words.join(" ")
    );
    for inner in shown(command) {
        text.push_str(&pages(inner, &[words, &[inner.get_name()]].concat()));
    }
    text
}

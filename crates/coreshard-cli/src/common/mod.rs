//! Shared by the subcommands: machines, numbers, seeds, simulations, errors and output files.

mod destination;
pub(crate) mod drawing;
mod failure;
pub(crate) mod figures;
mod lists;
mod machine;
mod number;
pub(crate) mod output;
mod progress;
mod reports;
mod seeds;
mod shell;
mod simulated;
mod site;

pub(crate) use destination::{Destination, ForceArgs, Growing, JOBS_MARK};
pub(crate) use failure::{bad_input, bail_input, interrupted, report};
pub(crate) use lists::{counted, or_all, variant, variants};
pub(crate) use machine::{Machine, MachineArgs};
pub(crate) use number::{MOST_MICROSECONDS, few, many, microseconds, seed, sum_of, whole};
pub(crate) use progress::{Bar, ENDING, listen_for_interrupts, was_interrupted};
pub(crate) use reports::{JsonArgs, JsonOutput, PageArgs, PageOutput};
pub(crate) use seeds::{
    DEFAULT_SEEDS, SeedsArgs, each_with_each_seed, seeds, seeds_end, side_by_side,
};
pub(crate) use shell::shell_word;
pub(crate) use simulated::{
    SETTLE, Shared, SimArgs, each_alone, note, stoppable, taken_out, unless_interrupted,
    unless_stopped,
};
pub(crate) use site::{Site, kernel, other_load};

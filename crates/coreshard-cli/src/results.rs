//! Where results go: to files, and to programs as JSON.

mod destination;
mod json;

pub(crate) use destination::{Destination, ForceArgs, Growing, JOBS_MARK};
pub(crate) use json::{JsonArgs, JsonOutput, pretty};

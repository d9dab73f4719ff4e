//! The error of parsing a setting.

use std::fmt;

use coreshard_topology::input::quoted;

/// A text that is no kernel's release, or no setting of a scope. Its text says what was given and what is accepted.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseSettingError {
    text: String,
}

impl ParseSettingError {
    /// `rest` follows the text that was given.
    pub(super) fn new(given: &str, rest: impl fmt::Display) -> Self {
        Self { text: format!("{} is {rest}", quoted(given)) }
    }
}

impl fmt::Display for ParseSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

coreshard_topology::readable_debug!(ParseSettingError);

impl std::error::Error for ParseSettingError {}

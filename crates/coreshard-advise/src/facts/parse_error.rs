//! The error of parsing a setting.

use std::fmt;

use coreshard_topology::input::quoted;

/// An invalid kernel release or scope setting. The message names the text and the accepted values.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseSettingError {
    text: String,
}

impl ParseSettingError {
    pub(super) fn new(what: &str, given: &str, expected: impl fmt::Display) -> Self {
        Self { text: format!("invalid {what} {}: expected {expected}", quoted(given)) }
    }
}

impl fmt::Display for ParseSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

coreshard_topology::readable_debug!(ParseSettingError);

impl std::error::Error for ParseSettingError {}

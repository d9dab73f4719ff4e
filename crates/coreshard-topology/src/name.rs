//! Texts that are to be one of some known names.

use std::fmt;

/// A text that is none of the names that are known. Its own text lists them.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseNameError {
    text: String,
}

impl ParseNameError {
    /// An error with this text, for a type whose values have names.
    ///
    /// ```
    /// let error = coreshard_topology::ParseNameError::new("\"red\" is no taste; there is sweet");
    /// assert_eq!(error.to_string(), "\"red\" is no taste; there is sweet");
    /// ```
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

impl fmt::Display for ParseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

crate::readable_debug!(ParseNameError);

impl std::error::Error for ParseNameError {}

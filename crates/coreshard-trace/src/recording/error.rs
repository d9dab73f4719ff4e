//! The error of reading a recording.

use std::fmt;

use coreshard_topology::input;

/// A recording that cannot be read. The message has the offset and a description of the data there.
pub struct RecordingError {
    /// Such as `at offset 16: `.
    place: String,
    what: String,
}

impl RecordingError {
    pub(super) fn input(error: &input::InputError) -> Self {
        Self { place: String::new(), what: error.to_string() }
    }

    pub(super) fn at(offset: u64, what: impl Into<String>) -> Self {
        Self { place: format!("at offset {offset}: "), what: what.into() }
    }

    /// At an offset in a chunk.
    #[cold]
    pub(super) fn event(offset: usize, what: impl Into<String>) -> Self {
        Self { place: format!("at its offset {offset}: "), what: what.into() }
    }

    pub(super) fn in_chunk(self, offset: u64) -> Self {
        Self { place: format!("in the chunk at offset {offset}, {}", self.place), ..self }
    }

    /// Returns the message without the offset.
    pub(super) fn into_what(self) -> String {
        self.what
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, input::sentence(&self.what))
    }
}

coreshard_topology::readable_debug!(RecordingError);

impl std::error::Error for RecordingError {}

//! Why a host, device or queue cannot be opened.

use std::error::Error;
use std::fmt;

use coreshard_platform::NodeMemoryError;

use crate::tags::TagSetError;

/// Why a host, device or queue cannot be had. Its text names the file, and the remedy.
pub struct OpenError {
    text: String,
    is_bad_input: bool,
    /// The error that the text is of, if it is another one's.
    inner: Option<Box<dyn Error + Send + Sync>>,
}

impl OpenError {
    pub(crate) fn new(text: String) -> Self {
        Self { text, is_bad_input: false, inner: None }
    }

    /// The caller named something that is not there, not allowed, or of the wrong kind.
    pub(crate) fn bad_input(text: String) -> Self {
        Self { is_bad_input: true, ..Self::new(text) }
    }

    fn of(error: impl Error + Send + Sync + 'static) -> Self {
        let text = error.to_string();
        Self { inner: Some(Box::new(error)), ..Self::new(text) }
    }

    /// Whether the cause is what the caller named: a file that is not there, not allowed, or
    /// of the wrong kind.
    pub fn is_bad_input(&self) -> bool {
        self.is_bad_input
    }
}

impl From<TagSetError> for OpenError {
    fn from(error: TagSetError) -> Self {
        Self::of(error)
    }
}

impl From<NodeMemoryError> for OpenError {
    fn from(error: NodeMemoryError) -> Self {
        Self::of(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

coreshard_topology::readable_debug!(OpenError);

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The other texts have their reasons in them: once is enough.
        self.inner.as_ref()?.source()
    }
}

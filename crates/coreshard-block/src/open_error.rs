//! The error of opening a host, device or queue.

use std::error::Error;
use std::fmt;

use coreshard_platform::NodeMemoryError;

use crate::tags::TagSetError;

/// The error when a host, device or queue cannot be opened. Its text names the file and the remedy.
pub struct OpenError {
    text: String,
    is_bad_input: bool,
    /// The underlying error, if the text is that error's.
    inner: Option<Box<dyn Error + Send + Sync>>,
}

impl OpenError {
    pub(crate) fn new(text: String) -> Self {
        Self { text, is_bad_input: false, inner: None }
    }

    /// Creates an error for input that does not exist, is not permitted, or is of the wrong type.
    pub(crate) fn bad_input(text: String) -> Self {
        Self { is_bad_input: true, ..Self::new(text) }
    }

    fn of(error: impl Error + Send + Sync + 'static) -> Self {
        let text = error.to_string();
        Self { inner: Some(Box::new(error)), ..Self::new(text) }
    }

    /// Returns whether the caller's input is the cause: a file that does not exist, is not permitted, or is
    /// of the wrong type.
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
        // Other texts already contain their reason.
        self.inner.as_ref()?.source()
    }
}

//! The kinds of access to memory.

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    ReadModifyWrite,
    /// A read-modify-write that the line's home can do, for one who waits for the result.
    Add,
    /// The same, for one who does not.
    AddAndForget,
}

impl Access {
    /// The kinds that every machine has.
    pub(crate) const fn near(self) -> Self {
        match self {
            Self::Add | Self::AddAndForget => Self::ReadModifyWrite,
            other => other,
        }
    }
}

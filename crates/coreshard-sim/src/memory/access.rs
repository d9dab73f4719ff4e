//! The kinds of access to memory.

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    Store,
    ReadModifyWrite,
    /// A store that fails if the CPU has lost the line since it loaded from it.
    StoreExclusive,
    /// A read-modify-write that the line's home can execute, for a CPU that waits for the result.
    Add,
    /// The same, for a CPU that does not wait.
    AddAndForget,
}

impl Access {
    /// Returns whether it reads and writes at once.
    pub(crate) const fn is_locked(self) -> bool {
        matches!(
            self,
            Self::ReadModifyWrite | Self::StoreExclusive | Self::Add | Self::AddAndForget
        )
    }

    /// Returns the kind that every machine supports.
    pub(crate) const fn near(self) -> Self {
        match self {
            Self::Add | Self::AddAndForget => Self::ReadModifyWrite,
            other => other,
        }
    }
}

//! The teams of this process's runtime.

/// The machine of the process's runtime: the host, unless another package of the program turns Coreshard's feature
/// `testing` on.
pub(crate) type Here = <coreshard::Runtime as OfMachine>::Machine;
pub(crate) type Team = coreshard_workqueue::Team<Here>;

/// Public since a public trait's method names what it yields; code outside cannot name it.
pub trait OfMachine {
    /// That of a runtime.
    type Machine;
}

impl<P: coreshard_platform::Platform> OfMachine for coreshard_workqueue::Runtime<P> {
    type Machine = P;
}

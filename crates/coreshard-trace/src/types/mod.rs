//! What a program's types look like in memory: read from DWARF or BTF into one table.

pub(crate) mod binary;
mod btf;
mod contended;
pub(crate) mod dwarf;
mod error;
mod path;
pub(crate) mod sections;
pub(crate) mod split;
mod table;
mod virtual_bases;

pub use binary::{Binary, DebugSource};
pub use contended::Role;
pub use error::TypesError;
pub use path::FieldPath;
pub use table::{Global, Keyword, Language, Member, Record, Shape, Type, TypeId, TypeTable};

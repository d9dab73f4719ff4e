//! The layout of a program's types in memory, read from DWARF or BTF into one table.

mod binary;
mod btf;
mod btf_merge;
mod dwarf;
mod error;
mod field_path;
mod role;
mod table;

pub(crate) use binary::Symbol;
pub use binary::{Binary, DebugSource};
pub(crate) use btf_merge::{MergedBtf, TypedGlobal};
pub use dwarf::SourcePlace;
pub use error::TypesError;
pub use field_path::FieldPath;
pub use role::Role;
pub use table::{Global, Keyword, Language, Member, Record, Shape, Type, TypeId, TypeTable};

//! Kernels: their symbols, their memory after an emulator ran them, and the names of what lies in it.
//!
//! | file | what it knows |
//! |---|---|
//! | `symbols.rs` | the kernel's symbols, and which functions take locks |
//! | `memory.rs` | a guest's memory in files, and its page tables |
//! | `structs.rs` | offsets of the kernel's structs |
//! | `slabs.rs` | the kernel's caches, their objects, and its tasks' stacks |
//! | `flow.rs` | the type that an instruction accesses |
//! | `registers.rs` | what registers and the stack of a function hold |
//! | `touched.rs` | the lines that several CPUs touch |
//! | `elf.rs` | the file of names in a recording |
//! | `names.rs` | all of it put together |

mod elf;
mod flow;
mod memory;
mod names;
mod registers;
mod slabs;
mod structs;
mod symbols;
#[cfg(test)]
mod tests;
mod touched;

pub use memory::GuestMemory;
pub use names::{KernelNames, KernelTypes, NamedKernel};
pub use symbols::{HookKind, KernelHook, KernelSymbol, KernelSymbols};

//! The architecture and the linkage of a program, which decide how it can be recorded.

use std::path::Path;

use coreshard_topology::input;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

/// Of a file, where its head is and the interpreter's name; linkers put both first.
const HEAD_BYTES: u64 = 64 << 10;

/// A program's file.
///
/// ```
/// use coreshard_trace::ProgramFile;
///
/// let program = ProgramFile::open(&std::env::current_exe()?)?;
/// assert_eq!(program.architecture(), std::env::consts::ARCH);
/// assert!(ProgramFile::open("Cargo.toml".as_ref()).unwrap_err().contains("no ELF program"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    architecture: &'static str,
    interpreter: Option<String>,
}

impl ProgramFile {
    /// Reads the file's head.
    ///
    /// # Errors
    /// If it cannot be read, or is no ELF program of 64 bits for a known processor; the text names the file.
    pub fn open(path: &Path) -> Result<Self, String> {
        let head = input::head_bytes(path, HEAD_BYTES).map_err(|error| error.to_string())?;
        Self::of(&head).map_err(|what| format!("{} is {what}", input::path(path)))
    }

    fn of(head: &[u8]) -> Result<Self, String> {
        let none = |_| "no ELF program of 64 bits".to_owned();
        let elf = FileHeader64::<Endianness>::parse(head).map_err(none)?;
        let endian = elf.endian().map_err(none)?;
        let architecture = match elf.e_machine(endian) {
            object::elf::EM_X86_64 => "x86_64",
            object::elf::EM_AARCH64 => "aarch64",
            other => {
                return Err(format!("for the ELF machine {other}; x86-64 and aarch64 are known"));
            }
        };
        let parts = elf.program_headers(endian, head).map_err(none)?;
        let interpreter =
            parts.iter().find_map(|part| part.interpreter(endian, head).ok().flatten());
        let interpreter = interpreter.map(|name| String::from_utf8_lossy(name).into_owned());
        Ok(Self { architecture, interpreter })
    }

    /// The processor's architecture that it is for, as Rust calls it.
    #[must_use]
    pub const fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Whether glibc's dynamic linker starts it.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.interpreter.as_ref().is_some_and(|path| path.contains("ld-linux"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_is_cut_or_foreign_is_an_error() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let head = &whole[..4_096];
        assert!(ProgramFile::of(head).unwrap().is_dynamic());
        for length in 0..64 {
            assert!(ProgramFile::of(&head[..length]).is_err(), "{length}");
        }
        let mut other = head.to_vec();
        other[18] = 243;
        assert!(ProgramFile::of(&other).unwrap_err().contains("the ELF machine 243"));
    }
}

//! The architecture and the linkage of a program, which decide how it can be recorded.

use std::path::Path;

use coreshard_topology::input;
use object::elf::{DT_NEEDED, DT_STRTAB, FileHeader64, ProgramHeader64};
use object::read::ReadCache;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadRef};

/// The recorder's library. Programs that were built for recording are linked with it.
const RECORDER: &str = "libcoreshard_tsan.so";
/// Longest name of a library.
const MOST_NAME_BYTES: u64 = 4_096;

/// The executable of a program.
///
/// ```
/// use coreshard_trace::ProgramFile;
///
/// let program = ProgramFile::open(&std::env::current_exe()?)?;
/// assert_eq!(program.architecture(), std::env::consts::ARCH);
/// assert!(ProgramFile::open("Cargo.toml".as_ref()).unwrap_err().contains("not a 64-bit ELF program"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    architecture: &'static str,
    interpreter: Option<String>,
    is_built_for_recording: bool,
}

impl ProgramFile {
    /// Reads the file's header and the list of libraries that it needs.
    ///
    /// # Errors
    /// If it cannot be read, or is not a 64-bit ELF program for a known processor. The message names the file.
    pub fn open(path: &Path) -> Result<Self, String> {
        let file = input::regular(path).map_err(|error| error.to_string())?;
        Self::of(&ReadCache::new(file)).map_err(|what| format!("{} is {what}", input::path(path)))
    }

    fn of<'file>(file: impl ReadRef<'file>) -> Result<Self, String> {
        let none = |_| "not a 64-bit ELF program".to_owned();
        let elf = FileHeader64::<Endianness>::parse(file).map_err(none)?;
        let endian = elf.endian().map_err(none)?;
        let architecture = match elf.e_machine(endian) {
            object::elf::EM_X86_64 => "x86_64",
            object::elf::EM_AARCH64 => "aarch64",
            other => {
                return Err(format!("for the ELF machine {other}; x86-64 and aarch64 are known"));
            }
        };
        let parts = elf.program_headers(endian, file).map_err(none)?;
        let interpreter =
            parts.iter().find_map(|part| part.interpreter(endian, file).ok().flatten());
        let interpreter = interpreter.map(|name| String::from_utf8_lossy(name).into_owned());
        let is_built_for_recording = needs(RECORDER, parts, endian, file).unwrap_or(false);
        Ok(Self { architecture, interpreter, is_built_for_recording })
    }

    /// The processor architecture in Rust's notation.
    #[must_use]
    pub const fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Whether glibc's dynamic linker starts it.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        self.interpreter.as_ref().is_some_and(|path| path.contains("ld-linux"))
    }

    /// Whether it was linked with the recorder of the engine `tsan`.
    #[must_use]
    pub const fn is_built_for_recording(&self) -> bool {
        self.is_built_for_recording
    }
}

/// Whether the program is linked with a library. None if its list of libraries cannot be read.
fn needs<'file>(
    library: &str,
    parts: &[ProgramHeader64<Endianness>],
    endian: Endianness,
    file: impl ReadRef<'file>,
) -> Option<bool> {
    let dynamic = parts.iter().find_map(|part| part.dynamic(endian, file).ok().flatten())?;
    let value =
        |tag| dynamic.iter().filter(move |its| its.tag(endian) == tag).map(|its| its.val(endian));
    let names = value(DT_STRTAB).next()?;
    let name_at = |offset: u64| {
        let address = names.checked_add(offset)?;
        let within = |part: &ProgramHeader64<Endianness>| {
            let from = address.checked_sub(part.p_vaddr(endian))?;
            (from < part.p_filesz(endian)).then(|| part.p_offset(endian).checked_add(from))?
        };
        let loaded = parts.iter().filter(|part| part.p_type(endian) == object::elf::PT_LOAD);
        let at = loaded.filter_map(within).next()?;
        file.read_bytes_at_until(at..at.checked_add(MOST_NAME_BYTES)?, 0).ok()
    };
    Some(value(DT_NEEDED).filter_map(name_at).any(|name| name == library.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_is_cut_or_foreign_is_an_error() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let head = &whole[..4_096];
        let program = ProgramFile::of(head).unwrap();
        assert!(program.is_dynamic() && !program.is_built_for_recording());
        for length in 0..64 {
            assert!(ProgramFile::of(&head[..length]).is_err(), "{length}");
        }
        let mut other = head.to_vec();
        other[18] = 243;
        assert!(ProgramFile::of(&*other).unwrap_err().contains("the ELF machine 243"));
    }
}

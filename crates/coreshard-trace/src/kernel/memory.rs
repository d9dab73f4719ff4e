//! A guest's memory as its emulator left it: physical memory in files, and the kernel's page tables in it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::KernelSymbols;

/// The part of the address space that the kernel's code and data lie in. Without randomization, it is mapped to physical
/// address 0.
const CODE_MAP: u64 = 0xffff_ffff_8000_0000;
/// Where the kernel maps all physical memory, with four levels of page tables and without randomization.
pub(super) const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
/// Where the kernel has an array of `struct page`, one for each page of memory.
pub(super) const PAGE_MAP: u64 = 0xffff_ea00_0000_0000;
/// The machine q35 has its memory in two parts if it has more than this; the second begins at 4 GiB.
const MOST_IN_ONE_PART: u64 = 0xb000_0000;
const FIRST_PART: u64 = 0x8000_0000;
const SECOND_PART_AT: u64 = 1 << 32;
const PAGE_BYTES: u64 = 4_096;
/// In an entry of a page table: the address, and whether it is there or ends the walk early.
const ADDRESS_BITS: u64 = 0x000f_ffff_ffff_f000;
const IS_PRESENT: u64 = 1;
const IS_LARGE: u64 = 1 << 7;

/// The memory of an emulated x86-64 machine that ran a kernel without randomization of addresses.
#[derive(Debug)]
pub struct GuestMemory {
    /// The files with their lengths in bytes, one after the other.
    parts: Vec<(u64, File)>,
    bytes: u64,
    top_table: u64,
}

impl GuestMemory {
    /// Opens the memory of a machine of QEMU's type q35. `parts` are its files with their lengths, in the order of
    /// addresses.
    ///
    /// # Errors
    /// If the kernel of these symbols is not in that memory.
    pub fn new(parts: Vec<(u64, File)>, symbols: &KernelSymbols) -> Result<Self, String> {
        let bytes = parts.iter().map(|(bytes, _)| bytes).sum();
        let address = |name: &str| {
            let address = symbols.address_of(name);
            address.ok_or_else(|| {
                format!("the kernel has no symbol {name}, by which its memory is read")
            })
        };
        let top_table = address("init_top_pgt")?.wrapping_sub(CODE_MAP);
        let memory = Self { parts, bytes, top_table };
        let mut banner = [0; 13];
        let is_there = memory.read(address("linux_banner")?, &mut banner).is_some();
        if !is_there || &banner != b"Linux version" {
            return Err("the kernel's memory is not where its symbols say: was it moved at boot?"
                .to_owned());
        }
        Ok(memory)
    }

    /// Reads physical memory; none if there is no memory at the address.
    fn read_physical(&self, address: u64, into: &mut [u8]) -> Option<()> {
        let in_one = self.bytes < MOST_IN_ONE_PART;
        let mut offset = match address {
            _ if in_one || address < FIRST_PART => address,
            _ => address.checked_sub(SECOND_PART_AT)?.checked_add(FIRST_PART)?,
        };
        for (bytes, file) in &self.parts {
            match offset.checked_sub(*bytes) {
                Some(rest) => offset = rest,
                None => return file.read_exact_at(into, offset).ok(),
            }
        }
        None
    }

    fn physical_word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read_physical(address, &mut word)?;
        Some(u64::from_le_bytes(word))
    }

    /// Returns the physical address of a kernel's address; none if nothing is mapped there.
    fn physical_of(&self, address: u64) -> Option<u64> {
        let mut table = self.top_table;
        for level in [39u32, 30, 21, 12] {
            let entry = self.physical_word(table + (address >> level & 0x1ff) * 8)?;
            if entry & IS_PRESENT == 0 {
                return None;
            }
            let is_last = level == 12 || (level < 39 && entry & IS_LARGE != 0);
            if is_last {
                let within = (1u64 << level) - 1;
                return Some((entry & ADDRESS_BITS & !within) | (address & within));
            }
            table = entry & ADDRESS_BITS;
        }
        None
    }

    /// Reads memory at a kernel's address; none if a part of it is not mapped.
    #[must_use]
    pub fn read(&self, address: u64, into: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < into.len() {
            let at = address.checked_add(done as u64)?;
            let rest = (PAGE_BYTES - at % PAGE_BYTES) as usize;
            let end = into.len().min(done + rest);
            self.read_physical(self.physical_of(at)?, &mut into[done..end])?;
            done = end;
        }
        Some(())
    }

    /// Reads a word of 8 bytes.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word)?;
        Some(u64::from_le_bytes(word))
    }

    /// Reads a number of 4 bytes.
    #[must_use]
    pub fn half(&self, address: u64) -> Option<u32> {
        let mut half = [0; 4];
        self.read(address, &mut half)?;
        Some(u32::from_le_bytes(half))
    }

    /// Reads a text of at most 63 bytes that ends with a zero byte.
    #[must_use]
    pub fn text(&self, address: u64) -> Option<String> {
        let mut bytes = Vec::new();
        for at in 0..63 {
            let mut byte = [0];
            self.read(address.checked_add(at)?, &mut byte)?;
            if byte[0] == 0 {
                break;
            }
            bytes.push(byte[0]);
        }
        Some(coreshard_topology::input::plain(&String::from_utf8_lossy(&bytes)))
    }
}

//! Writes a kernel's names as an ELF file without code: symbols, and types as BTF.

use super::KernelSymbol;

const HEADER_BYTES: u64 = 64;
const SECTION_BYTES: u64 = 64;
/// The section that symbols say they lie in; readers take symbols without one for undefined.
const ANY_SECTION: u16 = 3;

/// A section: its name, kind, content, the section that its entries refer to, and their size.
struct Section {
    name: &'static str,
    kind: u32,
    content: Vec<u8>,
    link: u32,
    entry_bytes: u64,
}

/// Returns the file. Every symbol has its address and size; BTF may be empty.
pub(super) fn file<'s>(symbols: impl Iterator<Item = &'s KernelSymbol>, btf: Vec<u8>) -> Vec<u8> {
    let (mut table, mut names) = (vec![0; 24], vec![0]);
    for symbol in symbols {
        table.extend((names.len() as u32).to_le_bytes());
        // Global; data or function.
        table.push(1 << 4 | if symbol.is_data { 1 } else { 2 });
        table.push(0);
        table.extend(ANY_SECTION.to_le_bytes());
        table.extend(symbol.address.to_le_bytes());
        table.extend(symbol.size_bytes.to_le_bytes());
        names.extend(symbol.name.bytes().filter(|byte| *byte != 0).chain([0]));
    }
    let section =
        |name, kind, content, link, entry_bytes| Section { name, kind, content, link, entry_bytes };
    let mut sections = vec![
        section("", 0, Vec::new(), 0, 0),
        section(".symtab", 2, table, 2, 24),
        section(".strtab", 3, names, 0, 0),
        section(".BTF", 1, btf, 0, 0),
    ];
    let mut section_names = Vec::new();
    let mut name_at = Vec::new();
    for name in sections.iter().map(|its| its.name).chain([".shstrtab"]) {
        name_at.push(section_names.len() as u32);
        section_names.extend(name.bytes().chain([0]));
    }
    sections.push(section(".shstrtab", 3, section_names, 0, 0));
    let bodies: u64 =
        sections.iter().map(|its| (its.content.len() as u64).next_multiple_of(8)).sum();
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A program for x86-64, version 1.
    file.extend(2u16.to_le_bytes());
    file.extend(62u16.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for word in [0, 0, HEADER_BYTES + bodies] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    let count = sections.len() as u16;
    for half in [HEADER_BYTES as u16, 56, 0, SECTION_BYTES as u16, count, count - 1] {
        file.extend(half.to_le_bytes());
    }
    let mut places = Vec::new();
    for its in &sections {
        places.push(file.len() as u64);
        file.extend(&its.content);
        file.resize(file.len().next_multiple_of(8), 0);
    }
    for ((its, place), name) in sections.iter().zip(places).zip(name_at) {
        file.extend(name.to_le_bytes());
        file.extend(its.kind.to_le_bytes());
        for word in [0, 0, place, its.content.len() as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(its.link.to_le_bytes());
        // Of symbols: how many are local.
        file.extend(u32::from(its.kind == 2).to_le_bytes());
        for word in [8, its.entry_bytes] {
            file.extend(word.to_le_bytes());
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Binary;

    #[test]
    fn symbols_and_types_are_found_again() {
        let symbol = |address, name: &str, is_data| KernelSymbol {
            address,
            size_bytes: 16,
            name: name.to_owned(),
            is_data,
            module: None,
        };
        let symbols = [
            symbol(0xffff_ffff_8100_0000, "_text", false),
            symbol(0xffff_ffff_8200_0000, "jiffies", true),
        ];
        let binary = Binary::from_bytes(file(symbols.iter(), Vec::new()).into()).unwrap();
        let found: Vec<_> =
            binary.symbols().iter().map(|its| (its.name.as_str(), its.is_data)).collect();
        assert_eq!(found, [("_text", false), ("jiffies", true)]);
        assert_eq!(binary.symbols()[1].size_bytes, 16);
    }
}

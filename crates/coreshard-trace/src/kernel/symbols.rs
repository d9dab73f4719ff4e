//! A kernel's symbols, as `/proc/kallsyms` and `System.map` have them.

use std::collections::HashMap;

/// Symbols of one kernel; Debian's have some 200,000.
const MOST_SYMBOLS: usize = 4 << 20;
/// The size of a symbol that no other one follows.
const LAST_BYTES: u64 = 4_096;

/// A symbol of a kernel or one of its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// Its address.
    pub address: u64,
    /// How far it is to the next symbol, in bytes.
    pub size_bytes: u64,
    /// Its name.
    pub name: String,
    /// Whether it is data rather than code.
    pub is_data: bool,
    /// The module it belongs to; none for the kernel itself.
    pub module: Option<String>,
}

/// The symbols of a kernel, by address.
///
/// ```
/// use coreshard_trace::KernelSymbols;
///
/// let text = "ffffffff81000000 T _text\nffffffff81000040 T start\nffffffffc0000000 d cache\t[null_blk]\n";
/// let symbols = KernelSymbols::parse(text)?;
/// assert_eq!(symbols.address_of("start"), Some(0xffffffff81000040));
/// assert_eq!(symbols.at(0xffffffff81000044).map(|it| it.name.as_str()), Some("start"));
/// assert!(KernelSymbols::parse("0000000000000000 T _text\n").unwrap_err().contains("all addresses are 0"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols {
    symbols: Vec<KernelSymbol>,
    by_name: HashMap<String, u32>,
}

impl KernelSymbols {
    /// Reads the text of `/proc/kallsyms` or `System.map`: lines of an address, a letter and a name.
    ///
    /// # Errors
    /// If a line has another form, or all addresses are 0, as users without privileges see them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut symbols = Vec::new();
        for (number, line) in text.lines().enumerate().take(MOST_SYMBOLS) {
            let wrong = || {
                format!(
                    "line {} of the kernel's symbols: expected an address, a letter and a name",
                    number + 1
                )
            };
            let mut words = line.split_whitespace();
            let Some(address) = words.next() else { continue };
            let address = u64::from_str_radix(address, 16).map_err(|_| wrong())?;
            let (letter, name) = (words.next().ok_or_else(wrong)?, words.next().ok_or_else(wrong)?);
            let module = words.next().map(|word| word.trim_matches(['[', ']']).to_owned());
            let is_data = match letter {
                "T" | "t" | "W" | "w" => false,
                "D" | "d" | "B" | "b" | "R" | "r" | "A" | "a" | "V" | "v" => true,
                // Undefined and debugging symbols have no place.
                _ => continue,
            };
            // Marks of the compiler and the linker, within functions and data.
            if name.starts_with("__pfx_")
                || name.starts_with("__UNIQUE_ID")
                || name.starts_with('$')
            {
                continue;
            }
            symbols.push(KernelSymbol {
                address,
                size_bytes: 0,
                name: coreshard_topology::input::plain(name),
                is_data,
                module,
            });
        }
        if symbols.iter().all(|symbol| symbol.address == 0) {
            return Err("the kernel's symbols tell nothing: all addresses are 0, or there is none"
                .to_owned());
        }
        by_place(&mut symbols);
        symbols.sort_by(|a, b| a.address.cmp(&b.address).then_with(|| a.name.cmp(&b.name)));
        let mut next = None;
        for at in (0..symbols.len()).rev() {
            let here = symbols[at].address;
            if let Some(after) = symbols.get(at + 1).filter(|after| after.address != here) {
                next = Some(after.address);
            }
            symbols[at].size_bytes = next.map_or(LAST_BYTES, |next: u64| next - here);
        }
        let by_name = symbols.iter().enumerate().rev();
        let by_name = by_name.map(|(at, symbol)| (symbol.name.clone(), at as u32)).collect();
        Ok(Self { symbols, by_name })
    }

    /// Returns all symbols, by address.
    #[must_use]
    pub fn all(&self) -> &[KernelSymbol] {
        &self.symbols
    }

    /// Returns the first symbol of a name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&KernelSymbol> {
        self.by_name.get(name).map(|at| &self.symbols[*at as usize])
    }

    /// Returns the address of a name.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<u64> {
        self.named(name).map(|symbol| symbol.address)
    }

    /// Returns the last symbol that begins at or before an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<&KernelSymbol> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        self.symbols[..after].last()
    }

    /// Returns the functions that take and give back the kernel's locks, wait for one, or switch tasks, by address.
    #[must_use]
    pub fn hooks(&self) -> Vec<KernelHook> {
        let functions = self.symbols.iter().filter(|symbol| !symbol.is_data && symbol.address != 0);
        let mut hooks: Vec<KernelHook> = functions
            .filter_map(|symbol| {
                let kind = HookKind::of(&symbol.name)?;
                let end = symbol.address + symbol.size_bytes;
                Some(KernelHook { start: symbol.address, end, kind })
            })
            .collect();
        hooks.dedup_by_key(|hook| hook.start);
        hooks
    }
}

/// Says which of the kernel's own symbols are data by where they lie: kernels from 7 on call some data code.
fn by_place(symbols: &mut [KernelSymbol]) {
    let address =
        |name: &str| symbols.iter().find(|symbol| symbol.name == name).map(|symbol| symbol.address);
    let range = |start, end| Some(address(start)?..address(end)?);
    let Some(text) = range("_stext", "_etext") else { return };
    let init = range("_sinittext", "_einittext").unwrap_or(0..0);
    for symbol in symbols.iter_mut().filter(|symbol| symbol.module.is_none()) {
        symbol.is_data = !text.contains(&symbol.address) && !init.contains(&symbol.address);
    }
}

/// The role of a function for the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// It returns with a lock of its own.
    Takes,
    /// It returns with a lock that others may share.
    Shares,
    /// It gives a lock back.
    Gives,
    /// It waits for a lock: its accesses are no part of a recording.
    Spins,
    /// It switches from one task's stack to another's.
    Switches,
}

/// A function that the recorder treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelHook {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// Its role.
    pub kind: HookKind,
}

impl HookKind {
    /// Returns the role of a function of this name, if the recorder treats it differently. Locks that a task may sleep with are none: their
    /// holder may go to another CPU.
    fn of(name: &str) -> Option<Self> {
        const SPINS: [&str; 9] = [
            "queued_spin_lock_slowpath",
            "native_queued_spin_lock_slowpath",
            "queued_read_lock_slowpath",
            "queued_write_lock_slowpath",
            "mutex_spin_on_owner",
            "rwsem_spin_on_owner",
            "osq_lock",
            "rtmutex_spin_on_owner",
            "rt_mutex_adaptive_spin",
        ];
        if SPINS.contains(&name) {
            return Some(Self::Spins);
        }
        if name == "__switch_to_asm" {
            return Some(Self::Switches);
        }
        let rest = name.strip_prefix("_raw_")?;
        let (of, operation) = rest.split_once('_')?;
        let is_lock =
            ["lock", "lock_irq", "lock_irqsave", "lock_bh", "lock_nested", "lock_irqsave_nested"];
        let is_unlock = ["unlock", "unlock_irq", "unlock_irqrestore", "unlock_bh"];
        match of {
            "spin" | "write" if is_lock.contains(&operation) => Some(Self::Takes),
            "read" if is_lock.contains(&operation) => Some(Self::Shares),
            "spin" | "write" | "read" if is_unlock.contains(&operation) => Some(Self::Gives),
            _ => None,
        }
    }

    /// The number by which the recorder knows it.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Takes => 1,
            Self::Shares => 2,
            Self::Gives => 3,
            Self::Spins => 4,
            Self::Switches => 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_reach_to_the_next_and_keep_their_modules() {
        let text = "\
0000000000001000 A cpu_number
ffffffff81000000 T _stext
ffffffff81000000 T first
ffffffff81000010 t __pfx_second
ffffffff81000020 t second
ffffffff81000080 D data
ffffffffc0001000 t null_queue\t[null_blk]
";
        let symbols = KernelSymbols::parse(text).unwrap();
        assert_eq!(symbols.named("first").unwrap().size_bytes, 0x20);
        assert_eq!(symbols.named("second").unwrap().size_bytes, 0x60);
        let null = symbols.at(0xffff_ffff_c000_1008).unwrap();
        assert_eq!((null.module.as_deref(), null.is_data), (Some("null_blk"), false));
        assert!(
            symbols.named("data").unwrap().is_data && symbols.named("cpu_number").unwrap().is_data
        );
        assert!(symbols.named("__pfx_second").is_none());
        assert!(KernelSymbols::parse("not a symbol").unwrap_err().contains("line 1"));
        assert!(KernelSymbols::parse("").is_err());
    }

    #[test]
    fn lock_functions_are_hooks_and_others_are_not() {
        for (name, kind) in [
            ("_raw_spin_lock", Some(HookKind::Takes)),
            ("_raw_spin_lock_irqsave", Some(HookKind::Takes)),
            ("_raw_write_lock_bh", Some(HookKind::Takes)),
            ("_raw_read_lock", Some(HookKind::Shares)),
            ("_raw_spin_unlock_irqrestore", Some(HookKind::Gives)),
            ("_raw_read_unlock", Some(HookKind::Gives)),
            ("native_queued_spin_lock_slowpath", Some(HookKind::Spins)),
            ("__switch_to_asm", Some(HookKind::Switches)),
            // Whether it got the lock cannot be seen.
            ("_raw_spin_trylock", None),
            ("mutex_lock", None),
            ("_raw_spin_lock_bh_other", None),
        ] {
            assert_eq!(HookKind::of(name), kind, "{name}");
        }
    }
}

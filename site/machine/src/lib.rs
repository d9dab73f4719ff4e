//! `coreshard-topology` for a page: a machine's text in, its packages, caches, nodes and pods out, as JSON.
//!
//! The page requests memory, writes the text there, calls the function, and reads the answer from its address.

mod describe;

pub use describe::{description, presets};

#[cfg(target_arch = "wasm32")]
mod page {
    use std::cell::RefCell;

    use super::{description, presets};

    /// Maximum size of a page's text. hwloc's XML for 480 CPUs takes 0.6 MB.
    const MOST_BYTES: usize = 32 << 20;

    thread_local! {
        static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        static ANSWER: RefCell<String> = const { RefCell::new(String::new()) };
    }

    /// Returns the address of memory for a text of `bytes` bytes, or null if that is too much.
    // SAFETY: no other function of the module has this name.
    #[unsafe(no_mangle)]
    pub extern "C" fn room(bytes: usize) -> *mut u8 {
        if bytes > MOST_BYTES {
            return std::ptr::null_mut();
        }
        INPUT.with_borrow_mut(|input| {
            input.clear();
            input.resize(bytes, 0);
            input.as_mut_ptr()
        })
    }

    fn keep(answer: String) -> usize {
        ANSWER.with_borrow_mut(|kept| {
            *kept = answer;
            kept.len()
        })
    }

    /// Describes the machine whose text was written to the room; the answer's length.
    // SAFETY: as above.
    #[unsafe(no_mangle)]
    pub extern "C" fn describe(shard_cores: usize) -> usize {
        keep(INPUT.with_borrow(|input| description(&String::from_utf8_lossy(input), shard_cores)))
    }

    /// The machines that are known by name; the answer's length.
    // SAFETY: as above.
    #[unsafe(no_mangle)]
    pub extern "C" fn list_presets() -> usize {
        keep(presets())
    }

    /// Returns the address of the last answer.
    // SAFETY: as above.
    #[unsafe(no_mangle)]
    pub extern "C" fn answer() -> *const u8 {
        ANSWER.with_borrow(|kept| kept.as_ptr())
    }
}

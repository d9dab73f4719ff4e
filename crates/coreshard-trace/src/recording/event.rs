//! Decodes the events of a chunk.

use super::error::RecordingError;

const SITES: usize = 4_096;
/// Words of an event. The longest one that an engine writes has about 120.
const MOST_WORDS: usize = 1 << 10;

/// The longest encoding of an access of a known site.
const LONGEST_BYTES: usize = 10;
/// By code: the bytes of an access of a known site, and the bits of the difference of its address.
const DIFFERENCES: [(usize, u32); 5] = [(2, 0), (3, 8), (4, 16), (6, 32), (10, 64)];

/// The kind of a memory access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// It is read.
    #[default]
    Load,
    /// It is written.
    Store,
    /// It is read and written at once.
    Modify,
}

/// One access of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The first byte.
    pub(crate) address: u64,
    /// The address after the instruction, or after the call that reported the access.
    pub(crate) instruction: u64,
    /// How.
    pub(crate) kind: AccessKind,
    /// Whether it is atomic.
    pub(crate) is_atomic: bool,
    /// How many bytes, 1 at least.
    pub(crate) size_bytes: u32,
    /// Instructions without an access since the previous access, at most 31; 0 if the recording does not count them.
    pub(crate) before: u8,
}

/// An event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// The thread accessed memory.
    Access(Access),
    /// The thread accessed many consecutive bytes.
    Range {
        /// As an access; its size is 1.
        access: Access,
        /// How many bytes.
        bytes: u64,
    },
    /// The thread started.
    Start {
        /// The ticket of its creation; 0 if that was not recorded.
        created: u64,
        /// Now.
        ticket: u64,
    },
    /// The thread created another thread.
    Create {
        /// The other thread.
        thread: u64,
        /// Now.
        ticket: u64,
    },
    /// The thread has joined another thread.
    Join {
        /// The other thread.
        thread: u64,
        /// Now.
        ticket: u64,
    },
    /// The thread exits.
    Exit {
        /// Now.
        ticket: u64,
    },
    /// The thread acquired a lock.
    Lock {
        /// The address of the lock.
        lock: u64,
        /// Whether other threads may hold it at the same time.
        is_shared: bool,
        /// Now.
        ticket: u64,
    },
    /// The thread releases a lock.
    Unlock {
        /// The address of the lock.
        lock: u64,
        /// Now.
        ticket: u64,
    },
    /// The thread was woken from a wait.
    Waited {
        /// The object that it waited for.
        object: u64,
        /// The ticket at which it began to wait; 0 if an earlier wake also counts.
        since: u64,
        /// Now.
        ticket: u64,
    },
    /// The thread wakes waiting threads.
    Wake {
        /// The object that they wait for.
        object: u64,
        /// Now.
        ticket: u64,
    },
    /// The thread allocated memory.
    Alloc {
        /// The first byte.
        address: u64,
        /// The number of bytes.
        bytes: u64,
        /// The size of one element if an array was requested that way, as with `calloc`; otherwise 0.
        element_bytes: u64,
        /// Now.
        ticket: u64,
        /// The call stack, innermost call first, as words of 8 bytes.
        calls: &'a [u8],
    },
    /// The thread freed memory.
    Free {
        /// The first byte.
        address: u64,
        /// Now.
        ticket: u64,
    },
    /// The thread's stack.
    Stack {
        /// The first byte.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
    /// Events are missing before this one.
    Gap {
        /// The number of the window that starts here.
        window: u64,
    },
    /// A file of code was loaded.
    Module {
        /// What its addresses begin at.
        base: u64,
        /// The first byte.
        start: u64,
        /// The byte after the last.
        end: u64,
        /// Its path.
        path: &'a [u8],
    },
    /// Instructions were executed since the previous event of this kind.
    Instructions {
        /// The number of instructions.
        count: u64,
    },
    /// An object whose name the recorder found out.
    Object {
        /// The first byte.
        address: u64,
        /// Its size.
        bytes: u64,
        /// From when on it is there.
        ticket: u64,
        /// The kernel's cache that it is from, or another place.
        origin: &'a [u8],
        /// The name of its type; empty if unknown.
        of: &'a [u8],
    },
}

/// The words of an event of kind 16, an object.
pub(crate) fn object_words(
    address: u64,
    bytes: u64,
    ticket: u64,
    origin: &str,
    of: &str,
) -> Vec<u64> {
    let lengths = origin.len() as u64 | (of.len() as u64) << 32;
    let mut words = vec![address, bytes, ticket, lengths];
    words.extend(text_words(&[origin, of].concat()));
    words
}

/// The words of an event of kind 14, a module.
pub(crate) fn module_words(base: u64, start: u64, end: u64, path: &str) -> Vec<u64> {
    let mut words = vec![base, start, end, path.len() as u64];
    words.extend(text_words(path));
    words
}

/// A text as words of 8 bytes, the last filled up with zeros.
fn text_words(text: &str) -> impl Iterator<Item = u64> + '_ {
    text.as_bytes().chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    })
}

impl Event<'_> {
    /// The position in the total order of the program's events, if the event has one. Accesses have none.
    #[inline]
    pub(crate) const fn ticket(&self) -> Option<u64> {
        match *self {
            Self::Start { ticket, .. }
            | Self::Create { ticket, .. }
            | Self::Join { ticket, .. }
            | Self::Exit { ticket }
            | Self::Lock { ticket, .. }
            | Self::Unlock { ticket, .. }
            | Self::Waited { ticket, .. }
            | Self::Wake { ticket, .. }
            | Self::Alloc { ticket, .. }
            | Self::Free { ticket, .. } => Some(ticket),
            _ => None,
        }
    }
}

/// Words of 8 bytes.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

#[derive(Clone, Copy, Default)]
struct Site {
    instruction: u64,
    last: u64,
    kind: AccessKind,
    is_atomic: bool,
    /// 0 if the chunk has not defined the site.
    size_bytes: u8,
    before: u8,
}

/// Reads a chunk's events, one after the other.
///
/// This is not an iterator because an event borrows from the chunk, and because the table of sites is reused.
pub(crate) struct Events {
    sites: Box<[Site]>,
    used: Vec<u16>,
}

impl Default for Events {
    fn default() -> Self {
        Self { sites: vec![Site::default(); SITES].into(), used: Vec::new() }
    }
}

impl Events {
    /// Clears the definitions of the previous chunk.
    pub(crate) fn begin(&mut self) {
        for site in self.used.drain(..) {
            self.sites[usize::from(site)].size_bytes = 0;
        }
    }

    /// Decodes the event at `*at` if it is an access of a site that the chunk has defined, which nearly all events are, and
    /// advances `*at` past it. The last bytes of a chunk are left to [`Self::next`].
    #[inline(always)]
    pub(crate) fn next_access(&mut self, chunk: &[u8], at: &mut usize) -> Option<Access> {
        let found = chunk.get(*at..).and_then(|rest| rest.first_chunk::<LONGEST_BYTES>())?;
        let head = u16::from_le_bytes([found[0], found[1]]);
        let (bytes, bits) = *DIFFERENCES.get(usize::from(head & 15))?;
        let site = &mut self.sites[usize::from(head >> 4)];
        if site.size_bytes == 0 {
            return None;
        }
        let [_, _, number @ ..] = *found;
        // A difference of 0 bits is shifted out in two steps.
        let (half, rest) = ((64 - bits) / 2, (64 - bits).div_ceil(2));
        let difference = (u64::from_le_bytes(number) << half << rest) as i64 >> half >> rest;
        site.last = site.last.wrapping_add_signed(difference);
        *at += bytes;
        Some(site.access())
    }

    /// Decodes the event at `*at` and advances `*at` past it. Returns none at the end of the chunk.
    #[inline]
    pub(crate) fn next<'a>(
        &mut self,
        chunk: &'a [u8],
        at: &mut usize,
    ) -> Result<Option<Event<'a>>, RecordingError> {
        if *at >= chunk.len() {
            return Ok(None);
        }
        let head = u16::from_le_bytes(bytes(chunk, at)?);
        let number = usize::from(head >> 4);
        let difference = match head & 15 {
            0 => 0,
            1 => i64::from(i8::from_le_bytes(bytes(chunk, at)?)),
            2 => i64::from(i16::from_le_bytes(bytes(chunk, at)?)),
            3 => i64::from(i32::from_le_bytes(bytes(chunk, at)?)),
            4 => i64::from_le_bytes(bytes(chunk, at)?),
            5 => return self.site(chunk, at, number).map(Some),
            6 => return other(chunk, at, number).map(Some),
            code => {
                return Err(RecordingError::event(*at - 2, format!("code {code} is not known")));
            }
        };
        let site = &mut self.sites[number];
        if site.size_bytes == 0 {
            return Err(RecordingError::event(*at, format!("site {number} is not known")));
        }
        site.last = site.last.wrapping_add_signed(difference);
        Ok(Some(Event::Access(site.access())))
    }

    fn site(
        &mut self,
        chunk: &[u8],
        at: &mut usize,
        number: usize,
    ) -> Result<Event<'static>, RecordingError> {
        let start = *at;
        let instruction = u64::from_le_bytes(bytes(chunk, at)?);
        let address = u64::from_le_bytes(bytes(chunk, at)?);
        let [kind, size_bytes] = bytes(chunk, at)?;
        let before = kind >> 3;
        let (kind, is_atomic) = kind_of(u64::from(kind & 7), start)?;
        if size_bytes == 0 {
            return Err(RecordingError::event(start, "an access of no byte"));
        }
        self.sites[number] =
            Site { instruction, last: address, kind, is_atomic, size_bytes, before };
        self.used.push(number as u16);
        Ok(Event::Access(self.sites[number].access()))
    }
}

impl Site {
    #[inline]
    fn access(&self) -> Access {
        Access {
            address: self.last,
            instruction: self.instruction,
            kind: self.kind,
            is_atomic: self.is_atomic,
            size_bytes: u32::from(self.size_bytes),
            before: self.before,
        }
    }
}

fn kind_of(kind: u64, at: usize) -> Result<(AccessKind, bool), RecordingError> {
    let is_atomic = kind & 4 != 0;
    match kind & !4 {
        0 => Ok((AccessKind::Load, is_atomic)),
        1 => Ok((AccessKind::Store, is_atomic)),
        2 => Ok((AccessKind::Modify, is_atomic)),
        _ => Err(RecordingError::event(at, format!("kind {kind} of an access is not known"))),
    }
}

#[inline]
fn bytes<const N: usize>(chunk: &[u8], at: &mut usize) -> Result<[u8; N], RecordingError> {
    let found = chunk.get(*at..).and_then(|rest| rest.first_chunk::<N>());
    let bytes = found.ok_or_else(|| RecordingError::event(*at, "it is cut"))?;
    *at += N;
    Ok(*bytes)
}

/// Appends an event of some words.
pub(crate) fn put_event(chunk: &mut Vec<u8>, kind: u16, words: &[u64]) {
    chunk.extend((kind << 4 | 6).to_le_bytes());
    chunk.extend((words.len() as u16).to_le_bytes());
    chunk.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn other<'a>(chunk: &'a [u8], at: &mut usize, kind: usize) -> Result<Event<'a>, RecordingError> {
    let start = *at;
    let wrong = |what: &str| RecordingError::event(start, what);
    let count = usize::from(u16::from_le_bytes(bytes(chunk, at)?));
    if count > MOST_WORDS {
        return Err(wrong("an event of more than 1,024 words"));
    }
    let body = chunk.get(*at..*at + 8 * count).ok_or_else(|| wrong("it is cut"))?;
    *at += 8 * count;
    let word = |number: usize| {
        let bytes = body.get(8 * number..).and_then(|rest| rest.first_chunk::<8>());
        bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(|| wrong("it has too few words"))
    };
    Ok(match kind {
        1 => Event::Start { created: word(0)?, ticket: word(1)? },
        2 => Event::Create { thread: word(0)?, ticket: word(1)? },
        3 => Event::Join { thread: word(0)?, ticket: word(1)? },
        4 => Event::Exit { ticket: word(0)? },
        5 => Event::Lock { lock: word(0)?, is_shared: word(1)? != 0, ticket: word(2)? },
        6 => Event::Unlock { lock: word(0)?, ticket: word(1)? },
        7 => Event::Waited { object: word(0)?, since: word(1)?, ticket: word(2)? },
        8 => Event::Wake { object: word(0)?, ticket: word(2)? },
        9 => {
            let (address, bytes, element_bytes, ticket) = (word(0)?, word(1)?, word(2)?, word(3)?);
            Event::Alloc { address, bytes, element_bytes, ticket, calls: &body[32..] }
        }
        10 => Event::Free { address: word(0)?, ticket: word(1)? },
        11 => Event::Stack { start: word(0)?, end: word(1)? },
        12 => {
            let (address, bytes, instruction) = (word(0)?, word(1)?, word(3)?);
            let (kind, is_atomic) = kind_of(word(2)?, start)?;
            Event::Range {
                access: Access { address, instruction, kind, is_atomic, size_bytes: 1, before: 0 },
                bytes,
            }
        }
        13 => Event::Gap { window: word(0)? },
        14 => {
            let length = usize::try_from(word(3)?).unwrap_or(usize::MAX);
            let path = body[32..].get(..length).ok_or_else(|| wrong("a path is cut"))?;
            Event::Module { base: word(0)?, start: word(1)?, end: word(2)?, path }
        }
        15 => Event::Instructions { count: word(0)? },
        16 => {
            let (address, bytes, ticket, lengths) = (word(0)?, word(1)?, word(2)?, word(3)?);
            let (origin, of) = ((lengths & 0xffff_ffff) as usize, (lengths >> 32) as usize);
            let origin_end = 32usize.saturating_add(origin);
            let text =
                |from: usize, to: usize| body.get(from..to).ok_or_else(|| wrong("a name is cut"));
            let origin = text(32, origin_end)?;
            let of = text(origin_end, origin_end.saturating_add(of))?;
            Event::Object { address, bytes, ticket, origin, of }
        }
        _ => return Err(wrong(&format!("event {kind} is not known"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunk: &[u8]) -> Result<Vec<String>, RecordingError> {
        let (mut events, mut at, mut told) = (Events::default(), 0, Vec::new());
        events.begin();
        while let Some(event) = events.next(chunk, &mut at)? {
            told.push(format!("{event:?}"));
        }
        Ok(told)
    }

    fn sample() -> Vec<u8> {
        let mut chunk = (7u16 << 4 | 5).to_le_bytes().to_vec();
        chunk.extend(0x40_1000u64.to_le_bytes());
        chunk.extend(0x7000u64.to_le_bytes());
        chunk.extend([1, 8]);
        chunk.extend((7u16 << 4).to_le_bytes());
        chunk.extend((7u16 << 4 | 1).to_le_bytes());
        chunk.push((-8i8).to_le_bytes()[0]);
        chunk.extend((5u16 << 4 | 6).to_le_bytes());
        chunk.extend(4u16.to_le_bytes());
        [0x9000u64, 1, 3, 0].iter().for_each(|word| chunk.extend(word.to_le_bytes()));
        chunk
    }

    #[test]
    fn sites_keep_their_last_address() {
        let told = all(&sample()).unwrap();
        assert_eq!(told.len(), 4);
        assert!(
            told[1].contains("address: 28672") && told[2].contains("address: 28664"),
            "{told:?}"
        );
        assert!(told[3].contains("Lock { lock: 36864, is_shared: true, ticket: 3 }"), "{told:?}");
    }

    #[test]
    fn accesses_are_decoded_alike_in_both_ways() {
        let mut chunk = sample();
        for (code, difference) in [(0, 0), (1, 0x7f), (1, -0x80), (2, -0x1234), (3, 0x4567_89ab)] {
            chunk.extend((7u16 << 4 | code).to_le_bytes());
            chunk.extend(&i64::to_le_bytes(difference)[..[0, 1, 2, 4][usize::from(code)]]);
        }
        chunk.extend((7u16 << 4 | 4).to_le_bytes());
        chunk.extend((-0x0123_4567_89ab_cdefi64).to_le_bytes());
        put_event(&mut chunk, 15, &[5]);
        let (mut events, mut at, mut told) = (Events::default(), 0, Vec::new());
        let mut quick = 0;
        events.begin();
        loop {
            if let Some(access) = events.next_access(&chunk, &mut at) {
                quick += 1;
                told.push(format!("{:?}", Event::Access(access)));
                continue;
            }
            let Some(event) = events.next(&chunk, &mut at).unwrap() else { break };
            told.push(format!("{event:?}"));
        }
        assert_eq!(told, all(&chunk).unwrap());
        assert_eq!(quick, 8);
    }

    #[test]
    fn a_cut_event_is_an_error_with_its_offset() {
        let whole = sample();
        let complete = [0, 20, 22, 25, whole.len()];
        for length in 0..whole.len() {
            let told = all(&whole[..length]);
            assert_eq!(told.is_ok(), complete.contains(&length), "{length}: {told:?}");
            if let Err(error) = told {
                assert!(error.to_string().contains("offset"), "{error}");
            }
        }
        let unknown = all(&(3u16 << 4).to_le_bytes()).unwrap_err().to_string();
        assert!(unknown.contains("site 3 is not known"), "{unknown}");
    }
}

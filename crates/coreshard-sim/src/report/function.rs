//! The function that makes an access, and its callers.

use std::collections::HashMap;
use std::panic::Location;

use super::own_code::is_programs_own;

/// A place in the program's source, from `#[track_caller]`.
pub(crate) type Site = &'static Location<'static>;

/// The number of callers that are recorded per access.
const CALLERS: usize = 3;

/// The number of frames that distinguish two call paths to an access.
const FRAMES: usize = 24;

/// A function, and its callers, the nearest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) function: String,
    pub(super) callers: Vec<String>,
}

/// The chains that were looked up so far; each is resolved once.
#[derive(Default)]
pub(super) struct Chains {
    known: HashMap<(*const Location<'static>, Vec<usize>), usize>,
    chains: Vec<Chain>,
}

impl Chains {
    /// Returns the number of the chain that leads to `site`, which is on the current stack.
    pub(super) fn number_of(&mut self, site: Site) -> usize {
        let mut frames = Vec::with_capacity(FRAMES);
        backtrace::trace(|frame| {
            frames.push(frame.ip().addr());
            frames.len() < FRAMES
        });
        let chains = &mut self.chains;
        *self.known.entry((site, frames)).or_insert_with(|| {
            chains.push(chain_of(site));
            chains.len() - 1
        })
    }

    pub(super) fn get(&self, number: usize) -> &Chain {
        &self.chains[number]
    }
}

/// Names the function by its place in the source if the program has no debug information, or if the function
/// is no longer on the stack, because the compiler turned its last access into a tail call.
fn chain_of(site: Site) -> Chain {
    let mut chain = Chain::default();
    backtrace::trace(|frame| {
        backtrace::resolve_frame(frame, |symbol| {
            let name = symbol.name().map(|name| format!("{name:#}"));
            if chain.function.is_empty() {
                let here = symbol.lineno() == Some(site.line())
                    && symbol.filename().is_some_and(|file| file.ends_with(site.file()));
                if here && let Some(name) = name {
                    chain.function = shorten(&name);
                }
            } else if chain.callers.len() < CALLERS
                && let Some(name) = name
                && is_programs_own(&name, symbol.filename(), &[]).unwrap_or(true)
            {
                let name = shorten(&name);
                if chain.callers.last() != Some(&name) {
                    chain.callers.push(name);
                }
            }
        });
        chain.callers.len() < CALLERS
    });
    if chain.function.is_empty() {
        chain.function = source_of(site);
    }
    chain
}

/// Returns file and line.
pub(super) fn source_of(site: Site) -> String {
    let file = site.file().rsplit('/').next().unwrap_or(site.file());
    format!("{file}:{}", site.line())
}

/// Shortens `<coreshard_platform::parker::Parker<P>>::unpark` to `Parker::unpark`. Type arguments are dropped
/// as meaningless: of functions with the same instructions the compiler keeps one, with the type arguments of
/// any of them.
fn shorten(name: &str) -> String {
    let mut path: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if next == '<' {
            let end = closing(rest);
            let inner = &rest[1..end];
            if word.is_empty() && path.is_empty() || inner.starts_with("impl ") {
                word.push_str(&shorten(self_type(inner)));
            }
            rest = &rest[(end + 1).min(rest.len())..];
            continue;
        }
        if let Some(after) = rest.strip_prefix("::") {
            path.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
            rest = after;
            continue;
        }
        word.push(next);
        rest = &rest[next.len_utf8()..];
    }
    path.extend((!word.is_empty()).then_some(word));
    let last = path.len().saturating_sub(1);
    let is_module = |(at, word): &(usize, String)| {
        *at < last && word.chars().next().is_some_and(char::is_lowercase)
    };
    let kept = path.into_iter().enumerate().filter(|it| !is_module(it)).map(|(_, word)| word);
    kept.collect::<Vec<_>>().join("::")
}

/// Returns where the bracket at the beginning of `text` is closed.
fn closing(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, next) in text.char_indices() {
        match next {
            '<' => depth += 1,
            // Not the arrow of a function's type.
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
        before = next;
    }
    text.len()
}

/// Returns A for `A as B`, and for `impl B for A`.
fn self_type(inner: &str) -> &str {
    if let Some((_, own)) = inner.strip_prefix("impl ").and_then(|rest| rest.split_once(" for ")) {
        return own;
    }
    let mut at = 0;
    while let Some(next) = inner[at..].chars().next() {
        if next == '<' {
            at += closing(&inner[at..]).min(inner.len() - at - 1) + 1;
        } else if inner[at..].starts_with(" as ") {
            return &inner[..at];
        } else {
            at += next.len_utf8();
        }
    }
    inner.strip_prefix("impl ").unwrap_or(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_and_type_arguments_are_left_out_of_names() {
        for (name, short) in [
            ("coreshard_platform::parker::Parker<P>::unpark", "Parker::unpark"),
            ("<coreshard_platform::parker::Parker<P>>::unpark", "Parker::unpark"),
            ("a::b::c", "c"),
            ("a::b::c::<d::E, [u8; 4]>", "c"),
            ("<a::B<c::D> as e::F<G>>::g::{{closure}}", "B::{{closure}}"),
            ("a::<impl b::C<D> for e::F<G>>::h", "F::h"),
            ("<alloc::boxed::Box<dyn core::ops::FnOnce() -> a::B> as c::D>::e", "Box::e"),
            ("a::Lock<P, T>::lock::<fn(B) -> C>", "Lock::lock"),
        ] {
            assert_eq!(shorten(name), short, "{name}");
        }
    }

    #[test]
    fn a_chain_is_told_by_the_way_to_it() {
        #[inline(never)]
        #[track_caller]
        fn access(chains: &mut Chains) -> usize {
            chains.number_of(Location::caller())
        }
        #[inline(never)]
        fn inner(chains: &mut Chains) -> usize {
            std::hint::black_box(access(chains))
        }
        #[inline(never)]
        fn one(chains: &mut Chains) -> usize {
            std::hint::black_box(inner(chains))
        }
        let mut chains = Chains::default();
        let mut numbers = [usize::MAX; 2];
        // Of unknown length, so that there is one call instead of one for each round.
        for number in std::hint::black_box(&mut numbers[..]) {
            *number = one(&mut chains);
        }
        let [first, again] = numbers;
        assert_eq!(first, again);
        assert_ne!(first, inner(&mut chains));
        assert!(chains.get(first).function.ends_with("inner"), "{:?}", chains.get(first));
    }
}

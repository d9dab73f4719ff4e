//! The function that an access is made in.

use crate::site::Site;

/// The name of the function around `site`, which is on the current stack. Where the program has
/// no debug information, the place in its source.
pub(super) fn function_of(site: Site) -> String {
    let mut function = None;
    backtrace::trace(|frame| {
        backtrace::resolve_frame(frame, |symbol| {
            let here = symbol.lineno() == Some(site.line())
                && symbol.filename().is_some_and(|file| file.ends_with(site.file()));
            if here && function.is_none() {
                function = symbol.name().map(|name| shorten(&format!("{name:#}")));
            }
        });
        function.is_none()
    });
    let file = site.file().rsplit('/').next().unwrap_or(site.file());
    function.unwrap_or_else(|| format!("{file}:{}", site.line()))
}

/// `<coreshard_platform::parker::Parker<P>>::unpark` becomes `Parker<P>::unpark`.
fn shorten(name: &str) -> String {
    let mut short = String::new();
    let mut word = String::new();
    let mut rest = name.chars().peekable();
    while let Some(next) = rest.next() {
        if next.is_alphanumeric() || next == '_' {
            word.push(next);
            continue;
        }
        // A path's element in lower case is a module, but for the last, which is the function.
        let is_path = next == ':' && rest.peek() == Some(&':');
        let module = is_path && word.chars().next().is_some_and(char::is_lowercase);
        if module {
            rest.next();
        } else {
            short.push_str(&word);
            short.push(next);
        }
        word.clear();
    }
    short.push_str(&word);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_left_out_of_names() {
        let short = shorten("coreshard_platform::parker::Parker<P>::unpark");
        assert_eq!(short, "Parker<P>::unpark");
        assert_eq!(shorten("a::b::c"), "c");
        assert_eq!(shorten("<a::B<c::D> as e::F>::g::{{closure}}"), "<B<D> as F>::{{closure}}");
    }
}

//! Checks an XML text before it is parsed, so that parsing terminates quickly.
//!
//! The parser compares each attribute of an element with all others of it, and lets a document declare entities, which
//! expand to long text. hwloc files have few attributes and no declarations.

use crate::input::{XML_ATTRIBUTES, XML_BYTES, XML_ELEMENTS};

/// The results of the check.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whether there is a `<!DOCTYPE …>`, without declarations.
    pub(super) has_doctype: bool,
    elements: usize,
}

/// Checks a text in one pass. Returns the byte offset and description of the first violation. Invalid XML is left to
/// the parser.
pub(super) fn look(text: &str) -> Result<Seen, (usize, String)> {
    let mut seen = Seen::default();
    if text.len() as u64 > XML_BYTES {
        return Err((0, format!("expected at most {XML_BYTES} bytes")));
    }
    let mut at = 0;
    while let Some(start) = text[at..].find('<').map(|found| at + found) {
        let rest = &text[start..];
        let length = match () {
            () if rest.starts_with("<!--") => past(rest, 4, "-->"),
            () if rest.starts_with("<![CDATA[") => past(rest, 9, "]]>"),
            () if rest.starts_with("<?") => past(rest, 2, "?>"),
            () if rest.starts_with("<!") => {
                seen.has_doctype = true;
                let tag = Tag::of(rest);
                if tag.declares {
                    let problem = "unexpected declarations ([ in <!DOCTYPE), such as entities, which hwloc's files do not have";
                    return Err((start, problem.to_owned()));
                }
                tag.length
            }
            () if rest.starts_with("</") => past(rest, 2, ">"),
            () => {
                seen.elements += 1;
                if seen.elements > XML_ELEMENTS {
                    let problem = format!("expected at most {XML_ELEMENTS} elements");
                    return Err((start, problem));
                }
                let tag = Tag::of(rest);
                if tag.attributes > XML_ATTRIBUTES {
                    let problem = format!(
                        "expected at most {XML_ATTRIBUTES} attributes of an element, found {}",
                        tag.attributes
                    );
                    return Err((start, problem));
                }
                tag.length
            }
        };
        at = start + length;
    }
    Ok(seen)
}

/// Returns the length up to the end of `end`, searched from byte `from`; all if it is missing.
fn past(rest: &str, from: usize, end: &str) -> usize {
    rest[from..].find(end).map_or(rest.len(), |found| from + found + end.len())
}

/// The text between `<` and `>`.
struct Tag {
    length: usize,
    attributes: usize,
    declares: bool,
}

impl Tag {
    fn of(rest: &str) -> Self {
        let mut tag = Self { length: rest.len(), attributes: 0, declares: false };
        let mut quote = None;
        for (at, byte) in rest.bytes().enumerate() {
            match (quote, byte) {
                (Some(open), byte) if open == byte => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'=') => tag.attributes += 1,
                (None, b'[') => tag.declares = true,
                (None, b'>') => {
                    tag.length = at + 1;
                    break;
                }
                _ => {}
            }
        }
        tag
    }
}

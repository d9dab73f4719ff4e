//! A look at an XML text before it is parsed: that parsing it will end, and soon.
//!
//! The parser compares each attribute of an element with all others of it, and lets a document declare
//! entities, with which a short text stands for a very long one. Files of hwloc have few attributes and
//! declare nothing.

use crate::input::{XML_ATTRIBUTES, XML_BYTES, XML_ELEMENTS};

/// The findings of a look.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Whether there is a `<!DOCTYPE …>`, which declares nothing.
    pub(super) has_doctype: bool,
    elements: usize,
}

/// Looks through a text, once. Gives the byte of what is beyond the bounds, and says so. What is no XML at
/// all is left to the parser to find.
pub(super) fn look(text: &str) -> Result<Seen, (usize, String)> {
    let mut seen = Seen::default();
    if text.len() as u64 > XML_BYTES {
        return Err((0, format!("the text has more than {XML_BYTES} bytes, the most allowed")));
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
                    let problem = "the document declares things of its own ([ in <!DOCTYPE), such as \
                                   entities; hwloc's files do not, and none is read that does";
                    return Err((start, problem.to_owned()));
                }
                tag.length
            }
            () if rest.starts_with("</") => past(rest, 2, ">"),
            () => {
                seen.elements += 1;
                if seen.elements > XML_ELEMENTS {
                    let problem = format!("there are more than {XML_ELEMENTS} elements");
                    return Err((start, problem));
                }
                let tag = Tag::of(rest);
                if tag.attributes > XML_ATTRIBUTES {
                    let problem = format!(
                        "an element has {} attributes; at most {XML_ATTRIBUTES} are allowed",
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

/// The length up to the end of `end`, which is looked for from byte `from` on; all if it is missing.
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

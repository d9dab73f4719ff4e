//! Fits text into terminal columns.

use ratatui::text::Span;

/// Returns the terminal columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Replaces control characters in text from another process.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// Pads the text to exactly `columns`, on the right or on the left. Longer text ends in `…`.
pub(super) fn pad(text: &str, columns: usize, is_left: bool) -> String {
    let text = shorten(text, columns);
    let fill = " ".repeat(columns - width(&text));
    if is_left { text + &fill } else { fill + &text }
}

/// Shortens the text to at most `columns`.
pub(super) fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    for char in text.chars() {
        short.push(char);
        if width(&short) > columns.saturating_sub(1) {
            short.pop();
            break;
        }
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_the_columns_that_they_are_given() {
        assert_eq!(pad("ab", 4, true), "ab  ");
        assert_eq!(pad("ab", 4, false), "  ab");
        assert_eq!(pad("abcdef", 4, true), "abc…");
        // Two columns each.
        assert_eq!(pad("縮図版", 4, true), "縮… ");
        assert_eq!((shorten("abc", 0), shorten("abc", 1)), (String::new(), "…".to_owned()));
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a?[2Jb?");
    }
}

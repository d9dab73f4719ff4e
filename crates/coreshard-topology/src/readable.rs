//! Readable `Debug` output of this workspace's errors, which programs print if `main` returns an error, as does
//! `unwrap`.

use std::error::Error;
use std::fmt;

/// Writes the text of `error`, and of each cause that is not part of the preceding text.
#[doc(hidden)]
pub fn readable(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let its = error.to_string();
        if !text.contains(&its) {
            text = text + ": " + &its;
        }
        cause = error.source();
    }
    f.write_str(&text)
}

/// Implements `Debug` for error types by their readable text.
#[doc(hidden)]
#[macro_export]
macro_rules! readable_debug {
    (<$parameter:ident> $error:ty) => {
        impl<$parameter> ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::readable(self, f)
            }
        }
    };
    ($error:ty) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::readable(self, f)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::fmt;

    struct Cause;
    crate::readable_debug!(Cause);

    impl fmt::Display for Cause {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the disk is full")
        }
    }

    impl std::error::Error for Cause {}

    /// Includes its cause in its text, or leaves it to its source.
    struct Effect(bool);
    crate::readable_debug!(Effect);

    impl fmt::Display for Effect {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let cause = if self.0 { ": the disk is full" } else { "" };
            write!(f, "cannot write{cause}")
        }
    }

    impl std::error::Error for Effect {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&Cause)
        }
    }

    #[test]
    fn each_cause_is_told_once() {
        for effect in [Effect(true), Effect(false)] {
            assert_eq!(format!("Error: {effect:?}"), "Error: cannot write: the disk is full");
        }
    }
}

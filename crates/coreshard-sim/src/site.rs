//! Where in the program's source an access is made.

use std::panic::Location;

/// As `#[track_caller]` tells it.
pub(crate) type Site = &'static Location<'static>;

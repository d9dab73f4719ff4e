//! Field names and offsets, for platforms that report which field lies on a cache line.

/// The fields of a struct and their offsets. Implemented by [`fields!`](crate::fields).
pub trait Fields {
    /// The struct's name, without its path.
    const NAME: &'static str;
    /// Name and offset in bytes of each field, in any order.
    const FIELDS: &'static [(&'static str, usize)];
}

/// Implements [`Fields`] for a struct: `fields!(Tail<P: Platform, T> { ticket, last })`, with the struct's
/// own bounds. A constant parameter comes last, after a semicolon:
/// `fields!(Segment<P: Platform, T; const LEN: usize> { slots })`.
///
/// All fields must be named. A list that lacks one does not compile, so measurements by field cannot drift
/// from the struct.
///
/// ```compile_fail,E0027
/// struct Pair {
///     issued: u64,
///     done: u64,
/// }
/// coreshard_platform::fields!(Pair { issued });
/// ```
///
/// ```
/// use coreshard_platform::{AtomicInt, Fields, Platform, fields};
///
/// #[repr(C)]
/// struct Pair<P: Platform> {
///     issued: P::AtomicU64,
///     done: P::AtomicU64,
/// }
/// fields!(Pair<P: Platform> { issued, done });
///
/// let pair = Pair::<coreshard_platform::Host> {
///     issued: AtomicInt::new(0),
///     done: AtomicInt::new(0),
/// };
/// coreshard_platform::Host::describe(&raw const pair);
/// assert_eq!(Pair::<coreshard_platform::Host>::FIELDS, [("issued", 0), ("done", 8)]);
/// ```
#[macro_export]
macro_rules! fields {
    ($name:ident $(<$($param:ident $(: $bound:path)?),+ $(; const $constant:ident: $type:ty)?>)?
        { $($field:ident),+ $(,)? }) => {
        impl $(<$($param $(: $bound)?),+ $(, const $constant: $type)?>)? $crate::Fields
            for $name $(<$($param),+ $(, $constant)?>)?
        {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [(&'static str, usize)] =
                &[$((stringify!($field), ::core::mem::offset_of!(Self, $field))),+];
        }
        impl $(<$($param $(: $bound)?),+ $(, const $constant: $type)?>)?
            $name $(<$($param),+ $(, $constant)?>)?
        {
            /// Compiles only if the list above names every field of the struct.
            #[allow(dead_code)]
            fn names_every_field(&self) {
                let Self { $($field: _),+ } = self;
            }
        }
    };
}

//! The columns of results. Each field of a row is declared once: its key in JSON and CSV, its meaning, its unit and its
//! place in tables.

/// The unit of a figure, which decides its format in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Text.
    Text,
    /// A count.
    Count,
    /// A rate per second, with all digits.
    PerSecond,
    /// A rate per second, with three digits.
    PerSecondRounded,
    /// A duration in microseconds.
    Microseconds,
    /// A duration in nanoseconds.
    Nanoseconds,
    /// A share between 0 and 1.
    Part,
    /// A ratio of two figures.
    Factor,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// Returns the unit as a word or two; empty for text.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Text => "",
            Unit::Count => "count",
            Unit::PerSecond | Unit::PerSecondRounded => "per second",
            Unit::Microseconds => "µs",
            Unit::Nanoseconds => "ns",
            Unit::Part => "part of 1",
            Unit::Factor => "times",
            Unit::Bytes => "bytes",
        }
    }
}

/// The value of one column in one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A name or other text.
    Text(&'a str),
    /// A truth value.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A figure, which may be NaN.
    Figure(f64),
    /// A range.
    Range(f64, f64),
    /// Not measured, or not suitable for a cell, such as a list.
    Absent,
}

/// Columns with a common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The short header, for narrow tables; may be empty.
    pub short: &'static str,
    /// The long header.
    pub long: &'static str,
}

/// The place of a column in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The common header.
    pub group: Group,
    /// The column's own name. `{first}` is replaced with the variant of the table's first row.
    pub name: &'static str,
    /// Narrow tables drop columns with the highest number first. Columns with 0 always stay. [`PAGE`] columns are never
    /// shown in a terminal.
    pub expendable: u8,
}

/// [`Heading::expendable`] of a column shown only in pages.
pub const PAGE: u8 = u8::MAX;

/// A column of rows of type `R`.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// The field's name, which is its key in JSON and CSV; empty for a derived column, which only tables have.
    pub key: &'static str,
    /// The description.
    pub meaning: &'static str,
    /// The unit.
    pub unit: Unit,
    /// The place in tables; `None` if it is not shown.
    pub heading: Option<Heading>,
    /// Returns the value in a row, given the table's first row.
    pub value: for<'a> fn(row: &'a R, first: &R) -> Value<'a>,
}

impl<R> Column<R> {
    /// Creates a derived column.
    pub(crate) const fn derived(
        unit: Unit,
        heading: Heading,
        value: for<'a> fn(&'a R, &R) -> Value<'a>,
    ) -> Self {
        Self { key: "", meaning: "", unit, heading: Some(heading), value }
    }
}

/// A type of result rows.
pub trait Row: Sized + 'static {
    /// All columns, in the order of the keys.
    const COLUMNS: &'static [Column<Self>];
}

/// No common header.
const ALONE: Group = Group { short: "", long: "" };

/// Returns the heading of a column that always stays.
pub(crate) const fn always(name: &'static str) -> Heading {
    Heading { group: ALONE, name, expendable: 0 }
}

/// Returns a heading without a group.
pub(crate) const fn minor(name: &'static str, expendable: u8) -> Heading {
    of(ALONE, name, expendable)
}

/// Returns a heading in a group.
pub(crate) const fn of(group: Group, name: &'static str, expendable: u8) -> Heading {
    Heading { group, name, expendable }
}

/// A type of cell values.
pub(crate) trait Cell {
    fn value(&self) -> Value<'_>;
}

impl Cell for String {
    fn value(&self) -> Value<'_> {
        Value::Text(self)
    }
}

impl Cell for bool {
    fn value(&self) -> Value<'_> {
        Value::Flag(*self)
    }
}

impl Cell for f64 {
    fn value(&self) -> Value<'_> {
        Value::Figure(*self)
    }
}

macro_rules! whole {
    ($($number:ty),+) => {
        $(impl Cell for $number {
            fn value(&self) -> Value<'_> {
                Value::Whole(u64::try_from(*self).unwrap_or(u64::MAX))
            }
        })+
    };
}

whole!(u8, u32, u64, usize);

impl<T: Cell> Cell for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Absent, Cell::value)
    }
}

impl<T> Cell for Vec<T> {
    fn value(&self) -> Value<'_> {
        Value::Absent
    }
}

impl<K, T> Cell for std::collections::BTreeMap<K, T> {
    fn value(&self) -> Value<'_> {
        Value::Absent
    }
}

/// Declares a row type with its columns. A field's type is followed by its unit, then in brackets its place in tables,
/// if any, and in braces the columns derived from it.
macro_rules! rows {
    ($($(#[$about:meta])* pub struct $row:ident {
        $($(#[doc = $doc:literal])+ $(#[serde $serde:tt])*
        $key:ident: $type:ty = $unit:ident $([$heading:expr])? $({$derived:expr})*;)+
    })+) => {
        $($(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $row {
            $($(#[doc = $doc])+ $(#[serde $serde])* pub $key: $type,)+
        }

        impl $crate::column::Row for $row {
            const COLUMNS: &'static [$crate::column::Column<Self>] = &[$(
                $crate::column::Column {
                    key: stringify!($key),
                    meaning: concat!($($doc),+),
                    unit: $crate::column::Unit::$unit,
                    heading: [$(Some($heading),)? None][0],
                    value: |row, _| $crate::column::Cell::value(&row.$key),
                },
                $($derived,)*
            )+];
        })+
    };
}
pub(crate) use rows;

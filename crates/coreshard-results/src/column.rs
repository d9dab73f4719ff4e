//! The columns of results. Each field of a row is told once, in the declaration of its type: its key in
//! JSON and CSV, its meaning, its unit, and its place in tables.

/// What a figure is, which decides how it is written for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No figure.
    Text,
    /// How many.
    Count,
    /// How many per second, with every digit.
    PerSecond,
    /// How many per second, in three digits.
    PerSecondRounded,
    /// A duration in microseconds.
    Microseconds,
    /// A duration in nanoseconds.
    Nanoseconds,
    /// A part of one.
    Part,
    /// One figure over another.
    Factor,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// The unit in a word or two; empty for texts.
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

/// What stands in one column of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A name, or another text.
    Text(&'a str),
    /// Whether something holds.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A figure, which may be NaN.
    Figure(f64),
    /// From the one to the other.
    Range(f64, f64),
    /// Nothing was measured; or it is more than fits into a cell, as a list.
    Absent,
}

/// Columns of one kind, under a header that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Where room is scarce; may be empty.
    pub short: &'static str,
    /// Where there is room.
    pub long: &'static str,
}

/// A column's place in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// What it has in common with the columns beside it.
    pub group: Group,
    /// Its own name; `{first}` stands for the variant of the table's first row.
    pub name: &'static str,
    /// Where there is too little room, columns of the highest number are left out first; those of 0 never.
    /// [`PAGE`] is never in a terminal's table.
    pub expendable: u8,
}

/// [`Heading::expendable`] of a column that only a page has room for.
pub const PAGE: u8 = u8::MAX;

/// A column of rows `R`.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// The field's name, which is its key in JSON and CSV; empty for a column that follows from others and is
    /// in tables alone.
    pub key: &'static str,
    /// What it tells.
    pub meaning: &'static str,
    /// How its figures are written.
    pub unit: Unit,
    /// `None` for what is in no table.
    pub heading: Option<Heading>,
    /// What stands in it in a row of a table with that first row.
    pub value: for<'a> fn(row: &'a R, first: &R) -> Value<'a>,
}

impl<R> Column<R> {
    /// A column that follows from others.
    pub(crate) const fn derived(
        unit: Unit,
        heading: Heading,
        value: for<'a> fn(&'a R, &R) -> Value<'a>,
    ) -> Self {
        Self { key: "", meaning: "", unit, heading: Some(heading), value }
    }
}

/// Results in rows.
pub trait Row: Sized + 'static {
    /// All columns, in the order of the keys.
    const COLUMNS: &'static [Column<Self>];
}

/// Without a group.
const ALONE: Group = Group { short: "", long: "" };

/// A column that is never left out.
pub(crate) const fn always(name: &'static str) -> Heading {
    Heading { group: ALONE, name, expendable: 0 }
}

/// A column without a group, and how soon it is left out.
pub(crate) const fn minor(name: &'static str, expendable: u8) -> Heading {
    of(ALONE, name, expendable)
}

/// A column of a group, and how soon it is left out.
pub(crate) const fn of(group: Group, name: &'static str, expendable: u8) -> Heading {
    Heading { group, name, expendable }
}

/// What can stand in a cell.
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

/// Declares a type of results with its columns: after each field's type its unit, in brackets its place in
/// tables, where it has one, and in braces the columns that follow from it.
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

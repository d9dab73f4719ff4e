//! The spread of simulated figures over seeds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::column::{Cell, Value};

/// The spread of a figure over seeds. The figure itself is the median.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedSpread {
    /// The first quartile.
    pub q1: f64,
    /// The third quartile.
    pub q3: f64,
    /// The ratio to the first variant's figure; `None` for the first variant.
    pub over_first: Option<SeedRatio>,
    /// The figure for each seed, in order.
    pub each: Vec<f64>,
}

/// The ratio of two figures, seed by seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedRatio {
    /// The median.
    pub median: f64,
    /// The first quartile.
    pub q1: f64,
    /// The third quartile.
    pub q3: f64,
    /// `noise alone` if 1 lies between the quartiles, otherwise empty.
    pub differs_by: String,
}

/// The spread of each figure by key. It is empty for measurements and for simulations with one seed.
///
/// ```
/// use coreshard_results::{SeedSpread, SeedSpreads};
///
/// let spread = SeedSpread { q1: 2.0, q3: 3.0, ..SeedSpread::default() };
/// let spreads = SeedSpreads::from([("frames_per_sec".to_owned(), spread)]);
/// assert_eq!(spreads.of("frames_per_sec").map(|it| it.q3), Some(3.0));
/// assert!(spreads.of("tasks").is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeedSpreads(BTreeMap<String, SeedSpread>);

impl SeedSpreads {
    /// Returns the spread of the figure with this key.
    pub fn of(&self, key: &str) -> Option<&SeedSpread> {
        self.0.get(key)
    }

    /// Returns true if there are no spreads.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn quartiles(&self, key: &str) -> Value<'static> {
        self.of(key).map_or(Value::Absent, |it| Value::Range(it.q1, it.q3))
    }

    fn ratio(&self, key: &str) -> Option<&SeedRatio> {
        self.of(key)?.over_first.as_ref()
    }

    /// Returns the ratio to the first variant, or `plain` without seeds.
    pub(crate) fn over_first(&self, key: &str, plain: f64) -> Value<'static> {
        Value::Figure(self.ratio(key).map_or(plain, |it| it.median))
    }

    pub(crate) fn ratio_median(&self, key: &str) -> Value<'static> {
        self.ratio(key).map_or(Value::Absent, |it| Value::Figure(it.median))
    }

    pub(crate) fn ratio_quartiles(&self, key: &str) -> Value<'static> {
        self.ratio(key).map_or(Value::Absent, |it| Value::Range(it.q1, it.q3))
    }

    pub(crate) fn differs_by(&self, key: &str) -> Value<'_> {
        let words = self.ratio(key).map(|it| it.differs_by.as_str());
        words.filter(|words| !words.is_empty()).map_or(Value::Absent, Value::Text)
    }
}

impl<const N: usize> From<[(String, SeedSpread); N]> for SeedSpreads {
    fn from(spreads: [(String, SeedSpread); N]) -> Self {
        Self(spreads.into())
    }
}

impl FromIterator<(String, SeedSpread)> for SeedSpreads {
    fn from_iter<I: IntoIterator<Item = (String, SeedSpread)>>(spreads: I) -> Self {
        Self(spreads.into_iter().collect())
    }
}

impl Cell for SeedSpreads {
    fn value(&self) -> Value<'_> {
        Value::Absent
    }
}

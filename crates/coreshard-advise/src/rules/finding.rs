//! What a rule looks at, and what it says.

use serde::Serialize;

use crate::facts::Facts;
use crate::measure::Measured;

/// Whether to do anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The setting is right, or a change would not help.
    Leave,
    /// It depends on what the machine is for: look, or measure, first.
    Consider,
    /// What is set costs something on any such machine.
    Change,
}

/// What a rule is called, and what it rests on.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// Its name in results; stays the same from version to version.
    pub id: &'static str,
    /// Why it is so.
    pub reason: &'static str,
    /// Where that is from.
    pub source: &'static str,
    #[serde(skip)]
    pub(super) judge: Judge,
}

pub(super) type Judge = fn(&Case<'_>) -> Vec<Finding>;

/// What a rule has to say of one thing.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// Whether to do anything.
    pub verdict: Verdict,
    /// What it is about: a setting, a queue, a device.
    pub subject: String,
    /// What was found, and what follows, in a sentence or two.
    pub statement: String,
    /// What to set; empty if there is nothing to be set, or nothing that a file holds.
    pub settings: Vec<Setting>,
    /// The gain, if it has been measured.
    pub expected: Option<Expected>,
    /// What may go wrong with the change; empty if nothing is to be changed.
    pub risk: String,
    /// What a simulated machine of this topology says, where it was asked.
    pub simulated: Option<Simulated>,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Setting {
    /// Its path, from the root.
    pub path: String,
    /// What it holds: what to write again to undo it. `None` where that is not known.
    pub now: Option<String>,
    /// What to write.
    pub to: String,
    /// The boot parameter that does the same, where there is one.
    pub boot: Option<String>,
    /// Whether the file can only be read, so that the boot parameter is the one way.
    pub is_boot_only: bool,
}

/// A range of gains: 1.0 is none, 2.0 twice as much, 0.9 a loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Expected {
    /// Of what.
    pub of: &'static str,
    /// The least that was seen.
    pub least: f64,
    /// The most that was seen.
    pub most: f64,
    /// By whom, and on what.
    pub seen: &'static str,
}

/// Throughput with what is proposed, over that with what is set, on a simulated machine with a kernel's costs: medians over
/// several seeds, and the least and the most among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Simulated {
    /// What was compared, such as `cache_shard over cache`.
    pub what: String,
    /// How many seeds were simulated.
    pub seeds: usize,
    /// How many items each CPU queued.
    pub items: u64,
    /// Every CPU queues an item and waits for it.
    pub even: f64,
    /// Its least and most.
    pub even_range: [f64; 2],
    /// One CPU queues bursts.
    pub lopsided: f64,
    /// Its least and most.
    pub lopsided_range: [f64; 2],
    /// Items as long, from as many CPUs, as were measured.
    pub measured: Option<f64>,
    /// Its least and most.
    pub measured_range: Option<[f64; 2]>,
}

/// The ratios of one load, one for each seed.
fn middle_and_ends(mut ratios: Vec<f64>) -> (f64, [f64; 2]) {
    ratios.sort_by(f64::total_cmp);
    let at = |place: usize| ratios.get(place).copied().unwrap_or(1.0);
    let last = ratios.len().saturating_sub(1);
    (f64::midpoint(at(last / 2), at(last.div_ceil(2))), [at(0), at(last)])
}

impl Simulated {
    /// Below this no gain can be told from none.
    const WORTH_IT: f64 = 1.05;

    /// Of the ratios of each load, one for each seed.
    ///
    /// ```
    /// use coreshard_advise::Simulated;
    ///
    /// let what = "cache_shard over cache".to_owned();
    /// let found = Simulated::over_seeds(what, 200, vec![1.3, 1.9, 1.4], vec![0.9, 1.0, 1.1], None);
    /// assert_eq!((found.seeds, found.even, found.even_range), (3, 1.4, [1.3, 1.9]));
    /// ```
    #[must_use]
    pub fn over_seeds(
        what: String,
        items: u64,
        even: Vec<f64>,
        lopsided: Vec<f64>,
        measured: Option<Vec<f64>>,
    ) -> Self {
        let seeds = even.len();
        let (even, even_range) = middle_and_ends(even);
        let (lopsided, lopsided_range) = middle_and_ends(lopsided);
        let (measured, measured_range) = measured.map(middle_and_ends).unzip();
        Self {
            what,
            seeds,
            items,
            even,
            even_range,
            lopsided,
            lopsided_range,
            measured,
            measured_range,
        }
    }

    /// Whether one of the loads gains by the change: at the median, and with no seed less than nothing. Where a pool's workers stay
    /// awake with some seeds and sleep with others, seeds disagree by factors.
    fn gains(&self) -> bool {
        let loads = [
            (Some(self.even), Some(self.even_range)),
            (Some(self.lopsided), Some(self.lopsided_range)),
            (self.measured, self.measured_range),
        ];
        let gains =
            |(median, [least, _]): (f64, [f64; 2])| median >= Self::WORTH_IT && least >= 1.0;
        loads.into_iter().filter_map(|(median, range)| median.zip(range)).any(gains)
    }
}

impl Finding {
    /// Puts what a simulated machine said into the finding. Where no load gains by the change, the verdict becomes
    /// [`Verdict::Leave`], and nothing is to be set.
    pub fn check_against(&mut self, simulated: Simulated) {
        if !simulated.gains() && self.verdict == Verdict::Change {
            self.verdict = Verdict::Leave;
            self.settings.clear();
            self.risk.clear();
            self.statement
                .push_str(" A simulated machine of this topology gains nothing by the change, or not with every seed, under any load: leave it.");
        }
        self.simulated = Some(simulated);
    }

    pub(super) fn with(mut self, setting: Setting) -> Self {
        self.settings.push(setting);
        self
    }
}

impl Setting {
    pub(super) fn new(path: impl Into<String>, now: Option<String>, to: impl Into<String>) -> Self {
        Self { path: path.into(), now, to: to.into(), boot: None, is_boot_only: false }
    }

    pub(super) fn at_boot(mut self, parameter: impl Into<String>) -> Self {
        self.boot = Some(parameter.into());
        self
    }

    pub(super) fn at_boot_alone(self, parameter: impl Into<String>) -> Self {
        Self { is_boot_only: true, ..self.at_boot(parameter) }
    }
}

/// A rule with what it is held against.
pub(super) struct Case<'a> {
    pub(super) rule: &'static Rule,
    pub(super) facts: &'a Facts,
    pub(super) measured: Option<&'a Measured>,
}

impl Case<'_> {
    pub(super) fn leave(
        &self,
        subject: impl Into<String>,
        statement: impl Into<String>,
    ) -> Finding {
        Finding {
            rule: self.rule,
            verdict: Verdict::Leave,
            subject: subject.into(),
            statement: statement.into(),
            settings: Vec::new(),
            expected: None,
            risk: String::new(),
            simulated: None,
        }
    }

    pub(super) fn consider(
        &self,
        subject: impl Into<String>,
        statement: impl Into<String>,
        risk: impl Into<String>,
    ) -> Finding {
        let finding = self.leave(subject, statement);
        Finding { verdict: Verdict::Consider, risk: risk.into(), ..finding }
    }

    pub(super) fn change(
        &self,
        subject: impl Into<String>,
        statement: impl Into<String>,
        risk: impl Into<String>,
        setting: Setting,
    ) -> Finding {
        let finding = self.leave(subject, statement);
        Finding { verdict: Verdict::Change, risk: risk.into(), settings: vec![setting], ..finding }
    }

    /// The rule looked, and is content.
    pub(super) fn content(&self, subject: &str, statement: impl Into<String>) -> Vec<Finding> {
        vec![self.leave(subject, statement)]
    }

    /// The findings; if there are none, that the rule looked and is content.
    pub(super) fn or_content<S: Into<String>>(
        &self,
        findings: Vec<Finding>,
        subject: &str,
        statement: impl FnOnce() -> S,
    ) -> Vec<Finding> {
        if findings.is_empty() { self.content(subject, statement()) } else { findings }
    }
}

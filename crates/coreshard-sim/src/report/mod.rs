//! What a run can tell besides its result: which lines and fields cost time, and what ran when.

mod fields;
mod function;
mod lines;
mod timeline;

use coreshard_platform::Fields;
use coreshard_topology::CpuId;

use crate::machine::{Machine, Ps};
use crate::memory::{Access, Outcome, Place};
use crate::site::Site;
use fields::FieldNames;
pub(crate) use fields::bare_name;
use lines::LineCounts;
pub use lines::{LineReport, LineRow, LineSummary};
pub(crate) use timeline::Span;
pub use timeline::Timeline;

/// Records what happens in a run.
pub(crate) struct Recorder {
    names: FieldNames,
    lines: Option<LineCounts>,
    spans: Option<Vec<Span>>,
}

impl Recorder {
    pub(crate) fn new(lines: bool, timeline: bool) -> Self {
        Self {
            names: FieldNames::default(),
            lines: lines.then(LineCounts::default),
            spans: timeline.then(Vec::new),
        }
    }

    pub(crate) fn record(
        &mut self,
        place: Place,
        access: Access,
        outcome: &Outcome,
        latency: Ps,
        site: Site,
    ) {
        if let Some(lines) = &mut self.lines {
            lines.record(place, access, outcome, latency, site);
        }
    }

    pub(crate) fn span(&mut self, span: Span) {
        if let Some(spans) = &mut self.spans
            && span.start < span.end
        {
            spans.push(span);
        }
    }

    pub(crate) fn describe<T: Fields>(&mut self, start: Place) {
        self.names.add(start, size_of::<T>(), T::NAME, T::FIELDS);
    }

    /// Memory is given back.
    pub(crate) fn release(&mut self, start: Place, bytes: usize) {
        if let Some(lines) = &mut self.lines {
            lines.keep_names(start, bytes, &self.names);
        }
        self.names.forget(start, bytes);
    }

    pub(crate) fn field_at(&self, place: Place) -> Option<String> {
        self.names.field_at(place)
    }

    pub(crate) fn finish(
        self,
        line_bytes: usize,
        machine: &Machine,
        threads: Vec<String>,
        cpus: Vec<CpuId>,
    ) -> (Option<LineReport>, Option<Timeline>) {
        let lines = self.lines.map(|lines| lines.report(line_bytes, machine, &self.names));
        let timeline = self.spans.map(|spans| Timeline::new(spans, threads, cpus));
        (lines, timeline)
    }
}

//! A type's layout as text.

use std::fmt::Write as _;

use coreshard_topology::input;
use coreshard_trace::{Field, LatentSharing, Layout, Mixed, Role, TypeProposals, Wasted};

use crate::common::counted;
use crate::replay::time;

/// Columns of a field's name and of a type's name. Longer names are cut.
const NAME_COLUMNS: usize = 34;
const TYPE_COLUMNS: usize = 40;

/// Formats one record, field by field, with holes and boundaries between lines.
pub(super) fn layout(layout: &Layout) -> String {
    let mut text = format!(
        "{} {}: {} bytes, aligned to {}, {} of {} bytes",
        layout.keyword,
        input::plain(&layout.name),
        layout.size_bytes,
        layout.alignment_bytes,
        counted(layout.lines as usize, "line"),
        layout.line_bytes,
    );
    let wasted = layout.wasted_bytes();
    if wasted > 0 {
        let _ = write!(
            text,
            "; {wasted} bytes unused: {} in {}, {} at the end",
            wasted - layout.padding_bytes,
            counted(layout.holes.len(), "hole"),
            layout.padding_bytes,
        );
    }
    text.push_str("\n  offset  size  line  ");
    let _ = writeln!(text, "{:<NAME_COLUMNS$}  type", "field");
    let mut rows: Vec<(u64, bool, String)> =
        layout.fields.iter().map(|field| (field.offset_bytes, false, row(field, layout))).collect();
    rows.extend(layout.holes.iter().map(|hole| {
        let line = hole.offset_bytes / layout.line_bytes;
        let row = format!("  {:>6} {:>5}  {line:>4}  · hole", hole.offset_bytes, hole.size_bytes);
        (hole.offset_bytes, true, row)
    }));
    if layout.padding_bytes > 0 {
        let at = layout.size_bytes - layout.padding_bytes;
        let line = at / layout.line_bytes;
        rows.push((
            at,
            true,
            format!("  {at:>6} {:>5}  {line:>4}  · padding", layout.padding_bytes),
        ));
    }
    // Fields with the same offset keep the source's order.
    rows.sort_by_key(|(offset, is_hole, _)| (*offset, !*is_hole));
    let mut line = 0;
    for (offset, _, row) in rows {
        if offset / layout.line_bytes > line {
            line = offset / layout.line_bytes;
            let _ = writeln!(text, "  ---- line {line}, at {} ----", line * layout.line_bytes);
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

fn row(field: &Field, layout: &Layout) -> String {
    let name = match field.bits {
        Some((first, count)) => format!("{}:{count} (bit {first})", field.name),
        None => field.name.clone(),
    };
    let name = if field.is_variant { format!("| {name}") } else { name };
    let remark = match (field.role, field.is_flexible) {
        (_, true) => "  (flexible)",
        (Role::Atomic, _) => "  (atomic)",
        (Role::Lock, _) => "  (lock)",
        (Role::Plain, _) => "",
    };
    format!(
        "  {:>6} {:>5}  {:>4}  {:<NAME_COLUMNS$}  {}{remark}",
        field.offset_bytes,
        field.size_bytes,
        field.offset_bytes / layout.line_bytes,
        cut(&name, NAME_COLUMNS),
        cut(&field.type_name, TYPE_COLUMNS),
    )
}

/// Formats the lists of a program's worst types.
pub(super) fn lists(name: &str, records: usize, wasted: &[Wasted], mixed: &[Mixed]) -> String {
    let mut text = format!("{}: {}\n", input::quoted(name), counted(records, "type"));
    if records == 0 {
        return text;
    }
    text.push_str("\nmost bytes that belong to no field\n  unused   size  holes  type\n");
    for found in wasted {
        let layout = &found.layout;
        let _ = writeln!(
            text,
            "  {:>6} {:>6} {:>6}  {} {}",
            found.wasted_bytes,
            layout.size_bytes,
            layout.holes.len(),
            layout.keyword,
            input::plain(&layout.name),
        );
    }
    if wasted.is_empty() {
        text.push_str("  none\n");
    }
    text.push_str("\natomics and locks beside other fields of their line\n   size  type: atomics and locks | other fields\n");
    for found in mixed {
        let layout = &found.layout;
        let _ = writeln!(
            text,
            " {:>6}  {} {}: {} | {}",
            layout.size_bytes,
            layout.keyword,
            input::plain(&layout.name),
            few(&found.contended),
            few(&found.beside),
        );
    }
    if mixed.is_empty() {
        text.push_str("  none\n");
    }
    text
}

/// Formats proposals for contended types.
pub(super) fn proposals(types: &[TypeProposals]) -> String {
    let mut text = String::new();
    if types.is_empty() {
        text.push_str("no named type loses 1 % of the threads' time to false sharing\n");
    }
    for of in types {
        let _ = writeln!(
            text,
            "{}: {} of {} bytes, {:.0} % of its cost is false sharing\n  now                 {:>10}, of which threads lose {}",
            input::plain(&of.name),
            counted(of.objects, "object"),
            of.size_bytes,
            of.false_share * 100.0,
            time(of.before_ns),
            time(of.lost_before_ns),
        );
        if of.proposals.is_empty() {
            text.push_str("  no layout that was tried gains 1 %\n");
        }
        for proposal in &of.proposals {
            let order: Vec<_> =
                proposal.order.iter().map(|(name, at)| format!("{name} at {at}")).collect();
            let _ = writeln!(
                text,
                "  {:>+8} bytes ({:>4}) {:>10}, of which threads lose {}: {}\n      {}\n      {}",
                proposal.spent_bytes,
                proposal.size_bytes,
                time(proposal.after_ns),
                time(proposal.lost_after_ns),
                proposal.what,
                few(&order),
                proposal.suggestion,
            );
        }
    }
    text
}

/// Formats latent false sharing.
pub(super) fn latent(found: &[LatentSharing]) -> String {
    if found.is_empty() {
        return "no latent false sharing: no object would lose more at another address than it does now\n"
            .to_owned();
    }
    let mut text = String::new();
    for of in found {
        let _ = writeln!(
            text,
            "{}: {} lost to false sharing now",
            input::plain(&of.object),
            time(of.now_ns)
        );
        for case in &of.elsewhere {
            let place = match case.shift_bytes {
                0 => format!("on lines of {} bytes", case.line_bytes),
                shift => format!("shifted by {shift} bytes"),
            };
            let _ = writeln!(text, "  {:>10} {place}", time(case.false_ns));
        }
    }
    text
}

/// Formats the first names of a list.
fn few(names: &[String]) -> String {
    const MOST: usize = 5;
    let mut text =
        names.iter().take(MOST).map(|name| input::plain(name)).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        let _ = write!(text, " and {} more", names.len() - MOST);
    }
    if text.is_empty() { "nothing else".to_owned() } else { text }
}

fn cut(text: &str, columns: usize) -> String {
    let text = input::plain(text);
    if text.chars().count() <= columns {
        return text;
    }
    text.chars().take(columns - 1).chain(['…']).collect()
}

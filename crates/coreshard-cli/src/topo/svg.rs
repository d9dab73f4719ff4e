//! The machine as a drawing: packages contain nodes, then caches, shards, cores and CPUs.
//!
//! Each level has one style. Shards with adjacent numbers have different styles, so that their borders stand out. Sizes
//! follow the number of CPUs, and a CPU is large enough to read its number. Hovering shows details.

use std::collections::BTreeMap;

use coreshard_topology::{Cpu, CpuId, CpuKind, CpuSet, Pod};
use svg::Document;
use svg::node::element::{Group, Rectangle, Style, Text, Title};

use super::boxes::{BoxPlace, Boxed, Room};
use super::table::size;
use super::view::View;
use crate::common::counted;

const MARGIN: f64 = 28.0;
const CPU_WIDTH: f64 = 27.0;
const CPU_HEIGHT: f64 = 15.0;
/// Three styles, so that adjacent shards differ.
const SHARD_LOOKS: u32 = 3;
/// Average width of a character relative to its font size.
const CHARACTER: f64 = 0.56;

/// One class per style, so that the file is small and easy to restyle.
const STYLE: &str = "
text { font-family: Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif; fill: #22303c; }
.page { fill: #ffffff; }
.title { font-size: 21px; font-weight: 600; }
.subtitle { font-size: 13px; fill: #52616e; }
.note { font-size: 11.5px; fill: #8a5a12; }
.package { fill: #f4f2ed; stroke: #b9b2a3; stroke-width: 1.2; }
.node { fill: #fcfbf8; stroke: #d3cdc0; stroke-width: 1; }
.llc { fill: #e6ebf0; stroke: #93a3b3; stroke-width: 1; }
.shard0 { fill: #bcd7d5; stroke: #5f9794; }
.shard1 { fill: #d5dcf0; stroke: #8592bd; }
.shard2 { fill: #dfe6c6; stroke: #97a365; }
.core { fill: #ffffff; fill-opacity: 0.55; stroke: none; }
.cpu { fill: #ffffff; }
.performance { fill: #ffffff; }
.efficiency { fill: #fbe6bd; }
.label { font-size: 12px; font-weight: 600; }
.detail { font-weight: 400; fill: #52616e; }
.small { font-size: 10px; }
.number { font-size: 9.5px; text-anchor: middle; fill: #33424f; }
";

/// The meaning of a box.
enum BoxKind {
    Machine,
    Package(Label),
    Node(Label),
    Llc(Label),
    /// A shard with its style.
    Shard(Label, u32),
    Core(String),
    Cpu(CpuId, CpuKind),
}

/// A name, a detail beside it, and the text shown on hovering.
struct Label {
    name: String,
    detail: String,
    hover: String,
}

impl Label {
    fn new(name: String, detail: String, cpus: &CpuSet) -> Self {
        let hover = format!("{name}: CPUs {cpus}");
        Self { name, detail, hover }
    }

    fn width(&self, font_size: f64) -> f64 {
        let characters = self.name.chars().count() + 2 + self.detail.chars().count();
        characters as f64 * font_size * CHARACTER + 16.0
    }
}

pub(super) fn render(view: &View) -> String {
    let machine = machine(view);
    let (inner_width, inner_height) = machine.size();
    let (header, header_width, header_height) = header(view);
    let inside = inner_width.max(header_width);
    let legend_top = MARGIN + header_height + inner_height + 18.0;
    let (legend, legend_height) = legend(view, legend_top, inside);
    let width = inside + 2.0 * MARGIN;
    let height = legend_top + legend_height + MARGIN - 8.0;

    let mut drawing = Group::new();
    machine.place(MARGIN, MARGIN + header_height, &mut |what, place| {
        drawing = std::mem::take(&mut drawing).add(draw(what, place));
    });
    let document = Document::new()
        .set("viewBox", (0, 0, width.ceil(), height.ceil()))
        .set("width", width.ceil())
        .set("height", height.ceil())
        .add(Title::new(view.title()))
        .add(Style::new(STYLE))
        .add(Rectangle::new().set("class", "page").set("width", "100%").set("height", "100%"))
        .add(header)
        .add(drawing)
        .add(legend);
    document.to_string() + "\n"
}

/// Builds the sized boxes of the machine.
fn machine(view: &View) -> Boxed<BoxKind> {
    let cpus: Vec<&Cpu> = view.topology().cpus().iter().collect();
    let packages = parted(&cpus, |cpu| cpu.package);
    let boxes = packages.into_iter().map(|(id, cpus)| {
        let label = Label::new(format!("Package {id}"), cores(&cpus), &set(&cpus));
        let room = room(26.0, 12.0, 12.0, label.width(12.0), 1.5);
        let nodes = parted(&cpus, |cpu| cpu.node);
        let nodes = nodes.into_values().map(|cpus| node(view, &cpus)).collect();
        Boxed::around(BoxKind::Package(label), nodes, room)
    });
    Boxed::around(BoxKind::Machine, boxes.collect(), room(0.0, 0.0, 18.0, 0.0, 1.9))
}

fn node(view: &View, cpus: &[&Cpu]) -> Boxed<BoxKind> {
    let name = match cpus[0].node {
        Some(node) => format!("NUMA node {node}"),
        None => "NUMA node unknown".to_owned(),
    };
    let label = Label::new(name, String::new(), &set(cpus));
    let room = room(24.0, 10.0, 10.0, label.width(12.0), 1.6);
    let caches = parted(cpus, |cpu| cpu.llc);
    let caches = caches.into_values().map(|cpus| llc(view, &cpus)).collect();
    Boxed::around(BoxKind::Node(label), caches, room)
}

fn llc(view: &View, cpus: &[&Cpu]) -> Boxed<BoxKind> {
    let id = cpus[0].llc;
    let cache = view.topology().llc(id);
    let name = match cache.and_then(|cache| cache.level) {
        Some(level) => format!("L{level} #{id}"),
        None => format!("unknown cache #{id}"),
    };
    let size = cache.and_then(|cache| cache.size_bytes).map(size);
    let mut detail = size.map_or_else(String::new, |size| format!("{size}, ")) + &cores(cpus);
    if cache.is_some_and(|cache| cache.cpus.len() > cpus.len()) {
        detail += " of it here";
    }
    let label = Label::new(name, detail, &set(cpus));
    let room = room(22.0, 8.0, 7.0, label.width(11.5), 1.7);
    let shards = parted(cpus, |cpu| view.shards().pod_of(cpu.id));
    let shards =
        shards.into_iter().filter_map(|(pod, cpus)| Some(shard(view.shards().get(pod?)?, &cpus)));
    Boxed::around(BoxKind::Llc(label), shards.collect(), room)
}

fn shard(pod: &Pod, cpus: &[&Cpu]) -> Boxed<BoxKind> {
    // A long list of CPUs is shown on hovering only.
    let list = pod.cpus.to_string();
    let detail = if list.len() <= 17 { list } else { counted(pod.cpus.len(), "CPU") };
    let label = Label::new(pod.id.to_string(), detail, &pod.cpus);
    let label = Label { hover: format!("shard {}", label.hover), ..label };
    // Keep the size of cores, so that they look alike everywhere.
    let room = Room { fills: false, ..room(18.0, 5.0, 4.0, label.width(10.0), 2.0) };
    let cores = parted(cpus, |cpu| cpu.core);
    let cores = cores.into_iter().map(|(id, cpus)| {
        let hover = format!("core {id}: CPUs {}", set(&cpus));
        let threads = cpus
            .iter()
            .map(|cpu| Boxed::leaf(BoxKind::Cpu(cpu.id, cpu.kind), CPU_WIDTH, CPU_HEIGHT));
        // Stack the threads of a core: a tall shape gives one column.
        Boxed::around(BoxKind::Core(hover), threads.collect(), room_of_core())
    });
    Boxed::around(BoxKind::Shard(label, pod.id.0 % SHARD_LOOKS), cores.collect(), room)
}

const fn room_of_core() -> Room {
    Room { header: 1.5, edge: 1.5, gap: 1.0, least_width: 0.0, shape: 0.01, fills: false }
}

const fn room(header: f64, edge: f64, gap: f64, least_width: f64, shape: f64) -> Room {
    Room { header, edge, gap, least_width, shape, fills: true }
}

/// Groups CPUs by a shared ID. IDs are ordered by their lowest CPU.
fn parted<'a, K: Ord>(cpus: &[&'a Cpu], key: impl Fn(&Cpu) -> K) -> BTreeMap<K, Vec<&'a Cpu>> {
    let mut parts: BTreeMap<K, Vec<&Cpu>> = BTreeMap::new();
    for cpu in cpus {
        parts.entry(key(cpu)).or_default().push(*cpu);
    }
    parts
}

fn set(cpus: &[&Cpu]) -> CpuSet {
    cpus.iter().map(|cpu| cpu.id).collect()
}

fn cores(cpus: &[&Cpu]) -> String {
    counted(parted(cpus, |cpu| cpu.core).len(), "core")
}

fn draw(what: &BoxKind, place: BoxPlace) -> Group {
    match what {
        BoxKind::Machine => Group::new(),
        BoxKind::Package(label) => labelled("package", 7.0, label, 12.0, 17.0, place),
        BoxKind::Node(label) => labelled("node", 6.0, label, 12.0, 16.0, place),
        BoxKind::Llc(label) => labelled("llc", 5.0, label, 11.5, 15.0, place),
        BoxKind::Shard(label, look) => {
            labelled(&format!("shard{look}"), 4.0, label, 10.0, 12.5, place)
        }
        BoxKind::Core(hover) => {
            Group::new().add(Title::new(hover)).add(rectangle("core", 3.0, place))
        }
        BoxKind::Cpu(id, kind) => {
            let number = Text::new(id.to_string())
                .set("class", "number")
                .set("x", rounded(place.x + place.width / 2.0))
                .set("y", rounded(place.y + place.height - 4.0));
            let class = kind_class(*kind);
            Group::new()
                .add(Title::new(format!("CPU {id}")))
                .add(rectangle(class, 2.0, place))
                .add(number)
        }
    }
}

const fn kind_class(kind: CpuKind) -> &'static str {
    match kind {
        CpuKind::Unknown => "cpu",
        CpuKind::Performance => "performance",
        CpuKind::Efficiency => "efficiency",
    }
}

fn rectangle(class: &str, radius: f64, place: BoxPlace) -> Rectangle {
    Rectangle::new()
        .set("class", class)
        .set("x", rounded(place.x))
        .set("y", rounded(place.y))
        .set("width", rounded(place.width))
        .set("height", rounded(place.height))
        .set("rx", radius)
}

/// Draws a box with its name and detail.
fn labelled(
    class: &str,
    radius: f64,
    label: &Label,
    font_size: f64,
    baseline: f64,
    place: BoxPlace,
) -> Group {
    let at = |x: f64, text: &str, class: &str| {
        Text::new(text)
            .set("class", class)
            .set("x", rounded(x))
            .set("y", rounded(place.y + baseline))
            .set("style", format!("font-size:{font_size}px"))
    };
    let left = place.x + radius + 3.0;
    let name_width = (label.name.chars().count() + 1) as f64 * font_size * (CHARACTER + 0.04);
    let mut group = Group::new()
        .add(Title::new(&label.hover))
        .add(rectangle(class, radius, place))
        .add(at(left, &label.name, "label"));
    if !label.detail.is_empty() {
        group = group.add(at(left + name_width, &label.detail, "detail"));
    }
    group
}

/// Rounds to a tenth of a pixel, to keep the file short.
fn rounded(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

/// Draws the title, counts and notes. Returns them with width and height.
fn header(view: &View) -> (Group, f64, f64) {
    let topology = view.topology();
    let mut subtitle = [
        counted(topology.packages(), "package"),
        counted(topology.nodes(), "NUMA node"),
        counted(topology.llcs(), "last-level cache"),
        counted(view.shards().len(), "cache shard"),
        counted(topology.cores(), "core"),
        counted(topology.cpus().len(), "CPU"),
    ]
    .join(" · ");
    let online = view.machine.whole.cpus().len();
    if online > topology.cpus().len() {
        subtitle = format!("{subtitle} usable of {online} online");
    }
    let mut lines = vec![("title", 14.0, 21.0, view.title()), ("subtitle", 37.0, 13.0, subtitle)];
    let notes = view.notes.iter().enumerate();
    lines.extend(notes.map(|(at, note)| ("note", 58.0 + 16.0 * at as f64, 11.5, note.clone())));
    let mut group = Group::new();
    let mut width: f64 = 0.0;
    for (class, y, font_size, text) in lines {
        width = width.max(text.chars().count() as f64 * font_size);
        let line = Text::new(text).set("class", class).set("x", MARGIN).set("y", MARGIN + y);
        group = group.add(line);
    }
    (group, width * (CHARACTER - 0.06), 60.0 + 16.0 * view.notes.len() as f64)
}

/// Draws the legend, in as many rows as its width needs. Returns it with its height.
fn legend(view: &View, top: f64, width: f64) -> (Group, f64) {
    const ROW: f64 = 22.0;
    let mut entries = vec![
        ("package", "package"),
        ("node", "NUMA node"),
        ("llc", "last-level cache"),
        ("shard0", "cache shard"),
        ("cpu", "CPU (threads of a core together)"),
    ];
    if view.topology().cpus().iter().any(|cpu| cpu.kind == CpuKind::Efficiency) {
        entries.push(("efficiency", "efficiency CPU"));
    }
    let mut group = Group::new();
    let (mut right, mut down) = (0.0, 0.0);
    for (class, text) in entries {
        let step = text.chars().count() as f64 * 12.0 * (CHARACTER - 0.08) + 50.0;
        if right > 0.0 && right + step > width {
            (right, down) = (0.0, down + ROW);
        }
        let (x, y) = (MARGIN + right, top + down);
        let swatch = BoxPlace { x, y, width: 20.0, height: 13.0 };
        let mut swatch = rectangle(class, 3.0, swatch);
        if matches!(class, "cpu" | "efficiency") {
            // CPUs have no outline in the drawing, but the shard around them does.
            swatch = swatch.set("stroke", "#93a3b3");
        }
        let text = Text::new(text)
            .set("class", "subtitle")
            .set("style", "font-size:12px")
            .set("x", rounded(x + 26.0))
            .set("y", rounded(y + 11.0));
        group = group.add(swatch).add(text);
        right += step;
    }
    (group, down + ROW)
}

//! Compares the types of this test in its debug information with the compiler's layout.

use std::mem::{offset_of, size_of};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use coreshard_trace::{Binary, DebugSource, FieldPath, Layout, Role, Shape, TypeTable};
use testing::{Lack, skip};

#[repr(C)]
struct Device {
    kind: u8,
    issued: AtomicU64,
    lanes: [Lane; 3],
    outcome: Outcome,
    taken: [AtomicU64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Lane {
    count: u32,
    flag: bool,
}

#[allow(dead_code, reason = "its variants are only read from debug information")]
#[repr(C, u8)]
enum Outcome {
    Never,
    Done { at: u64 },
    Failed(u16),
}

static DEVICE: Device = Device {
    kind: 1,
    issued: AtomicU64::new(0),
    lanes: [Lane { count: 0, flag: false }; 3],
    outcome: Outcome::Done { at: 3 },
    taken: [const { AtomicU64::new(0) }; 4],
};

/// Read once: it takes a second.
fn own_types() -> Option<&'static TypeTable> {
    static TYPES: OnceLock<Option<TypeTable>> = OnceLock::new();
    TYPES.get_or_init(read_own_types).as_ref()
}

fn read_own_types() -> Option<TypeTable> {
    // Use the variable, so that the linker keeps it.
    DEVICE.issued.fetch_add(u64::from(DEVICE.kind), Relaxed);
    let binary = Binary::open(&std::env::current_exe().unwrap()).unwrap();
    // A release build has debug information for lines only.
    (cfg!(debug_assertions) && *binary.source() == DebugSource::Itself)
        .then(|| binary.types().unwrap())
}

#[test]
fn rusts_types_lie_where_the_compiler_put_them() {
    let Some(types) = own_types() else {
        return skip(Lack::DebugInfo, "the test was built without types");
    };
    let found = types.named("own_types::Device");
    assert_eq!(found.len(), 1, "{found:?}");
    let layout = Layout::of(types, found[0], 64).unwrap();
    assert_eq!(layout.size_bytes, size_of::<Device>() as u64);
    assert_eq!(layout.alignment_bytes, align_of::<Device>() as u64);
    let told: Vec<_> =
        layout.fields.iter().map(|it| (it.name.as_str(), it.offset_bytes, it.role)).collect();
    assert_eq!(
        told,
        [
            ("kind", 0, Role::Plain),
            ("issued", offset_of!(Device, issued) as u64, Role::Atomic),
            ("lanes", offset_of!(Device, lanes) as u64, Role::Plain),
            ("outcome", offset_of!(Device, outcome) as u64, Role::Plain),
            ("taken", offset_of!(Device, taken) as u64, Role::Atomic),
        ]
    );
    assert_eq!(layout.holes.len(), 1, "after the first: {:?}", layout.holes);
    let lanes = offset_of!(Device, lanes) as u64;
    let flag = lanes + size_of::<Lane>() as u64 + offset_of!(Lane, flag) as u64;
    let path = FieldPath::at(types, found[0], flag);
    assert_eq!((path.text.as_str(), path.offset_bytes), ("lanes[1].flag", flag));
    // An atomic's own fields are not named, and its index is.
    let third = offset_of!(Device, taken) as u64 + 16;
    let path = FieldPath::at(types, found[0], third + 4);
    assert_eq!((path.text.as_str(), path.offset_bytes), ("taken[2]", third));
}

#[test]
fn a_rust_enum_has_its_variants_and_a_global_its_address() {
    let Some(types) = own_types() else {
        return skip(Lack::DebugInfo, "the test was built without types");
    };
    let found = types.named("own_types::Outcome");
    let Shape::Record(record) = &types.get(found[0]).shape else { panic!("a record") };
    let names: Vec<_> = record.variants.iter().filter_map(|it| it.name.as_deref()).collect();
    assert_eq!(names, ["(discriminant)", "Never", "Done", "Failed"]);
    let global = types
        .globals()
        .iter()
        .find(|it| it.name == "all::own_types::DEVICE")
        .expect("the global DEVICE");
    let field = FieldPath::at(types, global.of.unwrap(), offset_of!(Device, issued) as u64);
    assert_eq!(field.text, "issued");
}

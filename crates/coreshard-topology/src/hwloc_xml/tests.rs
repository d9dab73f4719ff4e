//! The same machine as hwloc 2.9.0 writes it in its two formats, cut to what is read.

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::CpuKind;
use crate::LlcId;

const V2: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000001f" gp_index="1">
    <object type="Package" os_index="7" cpuset="0x0000000f">
      <info name="CPUModel" value="A model"/>
      <object type="L3Cache" cpuset="0x00000003" cache_size="2097152" depth="3" cache_type="0">
        <object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="1073741824">
          <page_type size="4096" count="262144"/>
        </object>
        <object type="L1Cache" cpuset="0x00000003" cache_size="32768" depth="1" cache_type="1">
          <object type="Core" os_index="4" cpuset="0x00000003">
            <object type="PU" os_index="0" cpuset="0x00000001"/>
            <object type="PU" os_index="1" cpuset="0x00000002"/>
          </object>
        </object>
      </object>
      <object type="L3Cache" cpuset="0x0000000c" cache_size="2097152" depth="3" cache_type="0">
        <object type="NUMANode" os_index="1" cpuset="0x0000000c" local_memory="1073741824"/>
        <object type="NUMANode" os_index="2" cpuset="0x0000000c" local_memory="1073741824"/>
        <object type="Core" os_index="5" cpuset="0x0000000c">
          <object type="PU" os_index="2" cpuset="0x00000004"/>
          <object type="PU" os_index="3" cpuset="0x00000008"/>
        </object>
      </object>
    </object>
  </object>
  <support name="discovery.pu"/>
  <cpukind cpuset="0x0000000c"><info name="CoreType" value="IntelAtom"/></cpukind>
  <cpukind cpuset="0x00000003"><info name="CoreType" value="IntelCore"/></cpukind>
</topology>
"#;

const V1: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f">
    <object type="Socket" os_index="0" cpuset="0x0000000f">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="1073741824">
        <object type="Cache" cpuset="0x00000003" cache_size="2097152" depth="3" cache_type="0">
          <object type="Core" os_index="4294967295" cpuset="0x00000003">
            <object type="PU" os_index="0" cpuset="0x00000001"/>
            <object type="PU" os_index="1" cpuset="0x00000002"/>
          </object>
        </object>
      </object>
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" local_memory="1073741824">
        <object type="Cache" cpuset="0x0000000c" cache_size="2097152" depth="3" cache_type="0">
          <object type="Core" os_index="1" cpuset="0x0000000c">
            <object type="PU" os_index="2" cpuset="0x00000004"/>
            <object type="PU" os_index="3" cpuset="0x00000008"/>
          </object>
        </object>
      </object>
    </object>
  </object>
</topology>
"#;

fn read(text: &str) -> Result<Topology, TopologyError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.xml");
    fs::write(&path, text).unwrap();
    Topology::from_hwloc_xml(path)
}

#[test]
fn both_formats_describe_the_same_machine() {
    for text in [V1, V2] {
        let machine = read(text).unwrap();
        let counts = (
            machine.packages(),
            machine.llcs(),
            machine.cores(),
            machine.cpus().len(),
            machine.nodes(),
        );
        assert_eq!(counts, (1, 2, 2, 4, 2));
        assert_eq!(machine.name(), "machine.xml");
        assert_eq!(machine.cpus_of_node(NodeId(1)).to_string(), "2-3");
        let llc = machine.llc(LlcId(1)).unwrap();
        assert_eq!((llc.level, llc.size_bytes), (Some(3), Some(2 << 20)));
        assert_eq!(llc.cpus.to_string(), "2-3");
        assert_eq!(machine.notes(), [""; 0]);
    }
}

#[test]
fn version_2_tells_numbers_kinds_model_and_memory_nodes() {
    let machine = read(V2).unwrap();
    let cpu = machine.cpu(CpuId(3)).unwrap();
    assert_eq!((cpu.os_core, cpu.os_package, cpu.kind), (Some(5), Some(7), CpuKind::Efficiency));
    assert_eq!(machine.cpu(CpuId(0)).unwrap().kind, CpuKind::Performance);
    assert_eq!(machine.model(), Some("A model"));
    assert_eq!(machine.memory_only_nodes(), [NodeId(2)]);
    assert_eq!(machine.offline().to_string(), "4");
    assert_eq!(read(V1).unwrap().cpu(CpuId(0)).unwrap().os_core, None);
}

#[test]
fn what_is_not_described_is_noted() {
    let bare =
        "<topology><object type='Machine'><object type='PU' os_index='3'/></object></topology>";
    let machine = read(bare).unwrap();
    assert_eq!((machine.packages(), machine.llcs(), machine.nodes()), (1, 1, 0));
    let notes = machine.notes().join("\n");
    for missing in ["without a NUMA node", "without a package", "without a cache"] {
        assert!(notes.contains(missing), "{notes}");
    }
}

#[test]
fn mistakes_name_line_and_column() {
    let cases = [
        ("", "line 1, column 1: invalid XML"),
        ("<topology>\n<object type='PU'", "invalid XML"),
        ("<a/>", "line 1, column 1: expected <topology>, found <a>"),
        ("<topology/>", "expected an object of type PU"),
        (
            "<topology>\n <object type='PU'/></topology>",
            "line 2, column 2: the PU object lacks os_index",
        ),
        (
            "<topology><object type='PU' os_index='x'/></topology>",
            "expected a whole number as os_index, found \"x\"",
        ),
        ("<topology><object type='PU' os_index='70000'/></topology>", "invalid CPU 70000"),
        ("<topology><object type='PU' os_index='99999999999'/></topology>", "exceeds 32 bits"),
        ("<topology><object type='Cache'/></topology>", "the Cache object lacks depth"),
        (
            "<topology><object type='L3Cache' depth='3' cache_type='9'/></topology>",
            "expected 0, 1 or 2 as cache_type, found 9",
        ),
        (
            "<topology><object type='NUMANode' os_index='0' cpuset='zz'/></topology>",
            "cpuset: CPU mask \"zz\", column 1",
        ),
    ];
    for (text, expected) in cases {
        let error = read(text).unwrap_err();
        assert!(error.to_string().contains("machine.xml"), "{error}");
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
    let twice = V2.replace("os_index=\"3\"", "os_index=\"2\"");
    assert!(read(&twice).unwrap_err().to_string().contains("CPU 2 occurs twice"));
    assert!(Topology::from_hwloc_xml("/does/not/exist.xml").unwrap_err().path().is_some());
}

#[test]
fn deep_nesting_does_not_exhaust_the_stack() {
    let depth = 20_000;
    let text = format!(
        "<topology>{}<object type='PU' os_index='0'/>{}</topology>",
        "<object type='Group'>".repeat(depth),
        "</object>".repeat(depth)
    );
    // Either read or refused, but never a crash.
    if let Ok(machine) = read(&text) {
        assert_eq!(machine.cpus().len(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_damage_makes_the_reader_panic(
        at in 0..V2.len(), length in 0_usize..40, put in "[ -~]{0,12}", old in any::<bool>(),
    ) {
        let text = if old { V1 } else { V2 };
        let at = at.min(text.len());
        let end = (at + length).min(text.len());
        let _ = read(&format!("{}{put}{}", &text[..at], &text[end..]));
    }
}

fn error_in(text: &str) -> String {
    let error = Topology::from_hwloc_xml_text("it.xml", text).unwrap_err().to_string();
    assert!(error.len() < 400, "{error}");
    error
}

fn document(objects: &str) -> String {
    format!(
        "<topology><object type=\"Machine\">{objects}<object type=\"PU\" os_index=\"0\"/></object></topology>"
    )
}

/// Each of these took minutes, or gigabytes.
#[test]
fn a_document_costs_no_more_than_a_machine_does() {
    let entities = format!("<!DOCTYPE topology [<!ENTITY a '{}'>]>", "x".repeat(100_000));
    let attributes: String = (0..20_000).map(|n| format!(" a{n}='&a;'")).collect();
    let error = error_in(&(entities + &document(&format!("<object{attributes}/>"))));
    assert!(error.contains("unexpected declarations"), "{error}");
    let error = error_in(&document(&format!("<object{attributes}/>")));
    assert!(
        error.contains(
            "line 1, column 34: expected at most 64 attributes of an element, found 20000"
        ),
        "{error}"
    );
    let error = error_in(&document(&"<a/>".repeat(500_000)));
    assert!(error.contains("at most 500000 elements"), "{error}");
    let node = "<object type='NUMANode' os_index='1'/>";
    let error = error_in(&document(&node.repeat(5_000)));
    assert!(error.contains("at most 4096 NUMA nodes"), "{error}");
    let kind = "<cpukind cpuset='0x1'><info name='CoreType' value='IntelCore'/></cpukind>";
    let error = error_in(&document("").replace("</topology>", &(kind.repeat(100) + "</topology>")));
    assert!(error.contains("at most 64 kinds"), "{error}");
    assert!(error_in(&" ".repeat((32 << 20) + 1)).contains("at most 33554432 bytes"));
    // Valid files are parsed quickly: many nodes that are each local to 65,536 CPUs, and a deep document.
    let all = vec!["0xffffffff"; 2_048].join(",");
    let node = format!("<object type='NUMANode' os_index='1' cpuset='{all}'/>");
    Topology::from_hwloc_xml_text("it.xml", &document(&node.repeat(300))).unwrap();
    let deep = "<object type='Group'>".repeat(20_000) + &"</object>".repeat(20_000);
    Topology::from_hwloc_xml_text("it.xml", &document(&deep)).unwrap();
}

#[test]
fn quotes_comments_and_other_sections_hide_no_attributes() {
    let many = " a='1'".repeat(100);
    for hidden in [
        format!("<!-- < --><object b='>'{many}/>"),
        format!("<![CDATA[ <a ]]><object b=\"'>\" {many}/>"),
        format!("<?a b?><object{many}/>"),
    ] {
        assert!(error_in(&document(&hidden)).contains("at most 64"), "{hidden}");
    }
    let harmless = format!("<!--{many}--><a>{many}</a><![CDATA[<{many}>]]>");
    Topology::from_hwloc_xml_text("it.xml", &document(&harmless)).unwrap();
}

#[test]
fn foreign_words_in_a_document_are_shown_harmlessly() {
    let error = error_in(&document("<object type='PU' os_index='\u{9b}2J'/>"));
    assert!(error.contains("found \"\\u{9b}2J\""), "{error}");
    let model = "<object type='Package'><info name='CPUModel' value='&#x202e;A&#x86;'/></object>";
    let machine = Topology::from_hwloc_xml_text("a\u{1b}.xml", &document(model)).unwrap();
    assert_eq!((machine.model(), machine.name()), (Some("\u{fffd}A\u{fffd}"), "a\u{fffd}.xml"));
}

/// Four small cores that share an L2 cache, and two large ones, with what `kinds` says of them.
fn big_and_little(kinds: &str) -> Topology {
    let core = |cpu: u32| {
        format!(
            r#"<object type="Core" os_index="{cpu}" cpuset="{0:#x}"><object type="PU" os_index="{cpu}" cpuset="{0:#x}"/></object>"#,
            1 << cpu
        )
    };
    let level_2 = |cpus: std::ops::Range<u32>| {
        let cores: String = cpus.map(core).collect();
        format!(
            r#"<object type="L2Cache" cache_size="1" depth="2" cache_type="0">{cores}</object>"#
        )
    };
    let caches = [level_2(0..4), level_2(4..5), level_2(5..6)].concat();
    read(&format!(
        r#"<topology version="2.0"><object type="Machine" cpuset="0x3f"><object type="Package" os_index="0" cpuset="0x3f">
        <object type="L3Cache" cache_size="1" depth="3" cache_type="0">{caches}</object></object></object>{kinds}</topology>"#
    ))
    .unwrap()
}

#[test]
fn kinds_are_told_by_efficiency_or_capacity_where_intels_names_are_not() {
    let kinds = |attribute: &str, [small, large]: [&str; 2]| {
        format!(
            r#"<cpukind cpuset="0x0f" {attribute}="{small}"/><cpukind cpuset="0x30" {attribute}="{large}"/>"#
        )
    };
    let infos = |name: &str, [small, large]: [&str; 2]| {
        format!(
            r#"<cpukind cpuset="0x0f"><info name="{name}" value="{small}"/></cpukind>
            <cpukind cpuset="0x30"><info name="{name}" value="{large}"/></cpukind>"#
        )
    };
    for (name, text) in [
        ("efficiency", kinds("efficiency", ["0", "1"])),
        ("forced_efficiency", kinds("forced_efficiency", ["0", "1"])),
        ("LinuxCapacity", infos("LinuxCapacity", ["446", "1024"])),
        ("FrequencyMaxMHz", infos("FrequencyMaxMHz", ["1800", "2400"])),
    ] {
        let machine = big_and_little(&text);
        let of = |kind| {
            let its = machine.cpus().iter().filter(|cpu| cpu.kind == kind);
            its.map(|cpu| cpu.id).collect::<CpuSet>().to_string()
        };
        assert_eq!(
            (of(CpuKind::Efficiency), of(CpuKind::Performance)),
            ("0-3".into(), "4-5".into())
        );
        let note = format!("distinguished by {name}");
        assert!(machine.notes().iter().any(|it| it.ends_with(&note)), "{:?}", machine.notes());
        let shards = crate::Pods::new(
            &machine,
            machine.online(),
            crate::Scope::CacheShard,
            crate::ShardSize::DEFAULT,
        );
        let lists: Vec<_> = shards.unwrap().iter().map(|pod| pod.cpus.to_string()).collect();
        assert_eq!(lists, ["0-3", "4-5"]);
    }
    for alike in ["", &infos("LinuxCapacity", ["1000", "1024"]), &kinds("efficiency", ["1", "1"])] {
        let machine = big_and_little(alike);
        assert!(machine.cpus().iter().all(|cpu| cpu.kind == CpuKind::Unknown), "{alike}");
    }
}

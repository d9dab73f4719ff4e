use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn lists_of_the_kernel_are_read_and_written() {
    for list in ["", "0", "0-3", "0-3,8,10-11", "1,3,5,7", "63-64", "0-8191", "65535"] {
        assert_eq!(set(list).to_string(), list);
    }
    assert_eq!(set("0-3,8\n").to_string(), "0-3,8");
    assert_eq!(set(" 3 , 1-2 ").to_string(), "1-3");
    assert_eq!(set("5,5,4-6").to_string(), "4-6");
    assert_eq!(set("\n"), CpuSet::new());
}

#[test]
fn a_stride_takes_the_first_of_every_group() {
    assert_eq!(set("0-10:2/4").to_string(), "0-1,4-5,8-9");
    assert_eq!(set("3-9:1/3").to_string(), "3,6,9");
    assert_eq!(set("0-3:0/2"), CpuSet::new());
}

#[test]
fn a_wrong_list_names_the_column() {
    let column = |list: &str| list.parse::<CpuSet>().unwrap_err().column();
    assert_eq!(column("x"), 1);
    assert_eq!(column("0-3,"), 5);
    assert_eq!(column("0-3,,5"), 5);
    assert_eq!(column("0-3,9-8"), 5);
    assert_eq!(column("0-"), 3);
    assert_eq!(column("0-3 7"), 4);
    assert_eq!(column("0-3;7"), 4);
    assert_eq!(column("-3"), 1);
    assert_eq!(column("0-7:2"), 6);
    assert_eq!(column("0-7:3/2"), 5);
    assert_eq!(column("0-7:0/0"), 5);
    assert_eq!(column("é,1"), 1);
    assert_eq!(column("1,é"), 3);
}

#[test]
fn absurd_numbers_are_refused_before_memory_is_taken() {
    for list in ["0-4294967295", "4294967296", "0-99999999999999999999", "65536"] {
        let error = list.parse::<CpuSet>().unwrap_err();
        assert!(error.to_string().contains("up to 65535"), "{error}");
    }
}

#[test]
fn an_error_names_the_text_the_place_and_what_is_allowed() {
    let error = "0-3,8-".parse::<CpuSet>().unwrap_err().to_string();
    assert_eq!(error, "CPU list \"0-3,8-\", column 7: expected the last CPU of the range");
}

#[test]
fn masks_of_the_kernel_and_of_hwloc_are_read() {
    let mask = |text: &str| CpuSet::from_mask(text).unwrap().to_string();
    assert_eq!(mask("00000000,00002222\n"), "1,5,9,13");
    assert_eq!(mask("fffff"), "0-19");
    assert_eq!(mask("1,00000000,80000000"), "31,64");
    assert_eq!(mask("0x00000001,,0x0000000f"), "0-3,64");
    assert_eq!(mask("0x0"), "");
    assert_eq!(CpuSet::from_mask("f,xyz").unwrap_err().column(), 3);
    assert_eq!(CpuSet::from_mask("").unwrap_err().column(), 1);
    assert!(CpuSet::from_mask("123456789").is_err());
}

#[test]
fn membership_follows_insert_and_remove() {
    let mut cpus = CpuSet::new();
    assert!(cpus.insert(CpuId(100)));
    assert!(!cpus.insert(CpuId(100)));
    assert_eq!(cpus.last(), Some(CpuId(100)));
    assert!(cpus.remove(CpuId(100)));
    assert!(!cpus.remove(CpuId(100)));
    assert!(cpus.is_empty());
    assert_eq!(cpus, CpuSet::new(), "a set that was emptied equals a new one");
    assert_eq!(cpus.first(), None);
}

#[test]
fn the_highest_number_of_all_is_a_member_like_any_other() {
    let cpus: CpuSet = [CpuId(u32::MAX), CpuId(0)].into_iter().collect();
    assert_eq!((cpus.len(), cpus.last(), cpus.words()), (2, Some(CpuId(u32::MAX)), 2));
    assert_eq!(cpus.to_string(), "0,4294967295");
}

proptest! {
    #[test]
    fn sets_behave_like_sets(a: Vec<u16>, b: Vec<u16>) {
        let tree = |v: &[u16]| v.iter().map(|n| u32::from(*n % 4096)).collect::<BTreeSet<_>>();
        let bits = |t: &BTreeSet<u32>| t.iter().copied().map(CpuId).collect::<CpuSet>();
        let (a, b) = (tree(&a), tree(&b));
        let (x, y) = (bits(&a), bits(&b));
        prop_assert_eq!(x.len(), a.len());
        prop_assert_eq!(x.iter().map(|c| c.0).collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(&x & &y, bits(&(&a & &b)));
        prop_assert_eq!(&x | &y, bits(&(&a | &b)));
        prop_assert_eq!(&x - &y, bits(&(&a - &b)));
        prop_assert_eq!(x.is_subset(&y), a.is_subset(&b));
        prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
        prop_assert_eq!(x.last().map(|c| c.0), a.last().copied());
        prop_assert_eq!(x.to_string().parse::<CpuSet>().unwrap(), x);
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in "[-0-9,:/ xa-f\n]{0,24}|.{0,12}") {
        if let Err(error) = text.parse::<CpuSet>() {
            prop_assert!(error.column() <= text.chars().count() + 1);
        }
        let _ = CpuSet::from_mask(&text);
    }
}

#[test]
fn zeros_at_the_end_of_a_recorded_file_are_passed_over() {
    assert_eq!(set("0-3\n\0").to_string(), "0-3");
    assert_eq!(set("\n\0\0"), CpuSet::new());
    assert_eq!(CpuSet::from_mask("0000000f\n\0").unwrap().to_string(), "0-3");
    assert!("0\0-3".parse::<CpuSet>().is_err());
}

/// A megabyte of `0-65535,` took minutes, and its whole text came back in the error.
#[test]
fn a_list_names_so_many_cpus_in_all_and_its_error_stays_short() {
    assert_eq!(set(&vec!["0-65535"; 16].join(",")).len(), 65_536);
    let error = "0-65535,".repeat(131_072).parse::<CpuSet>().unwrap_err().to_string();
    assert!(error.contains("at most 1048576 CPUs") && error.len() < 300, "{error}");
    let error = "0-65535:1/2,".repeat(90_000).parse::<CpuSet>().unwrap_err();
    assert!(error.to_string().contains("column 193: "), "{error}");
    assert!("0-\u{1b}[2J".parse::<CpuSet>().unwrap_err().to_string().contains("\\u{1b}[2J"));
}

use super::*;
use crate::Kind;

#[test]
fn names_are_short_plain_ascii() {
    for good in ["a", "db1", "9-lives", "A_b.c", &"x".repeat(63)] {
        assert!(name("volume", good).is_ok(), "{good}");
    }
    let long = "x".repeat(64);
    for bad in ["", ".", "..", "-a", "_a", "a/b", "../x", "a b", "ü", "数据", "a\n", "a\0", "a%2f", &long]
    {
        let error = name("volume", bad).unwrap_err();
        assert_eq!(error.kind, Kind::Invalid, "{bad:?}");
        assert!(error.message.contains("volume"), "{error}");
    }
}

#[test]
fn sizes_are_whole_blocks_within_limits() {
    assert_eq!(geometry(1 << 20, 512).unwrap().blocks, 2048);
    assert_eq!(geometry(16 << 50, 4096).unwrap().blocks, 1 << 42);
    assert!(geometry((1 << 20) + 512, 512).is_ok());
    for (bytes, block) in
        [(0, 512), ((1 << 20) - 512, 512), ((16 << 50) + 512, 512), (u64::MAX, 512), (1 << 30, 520)]
    {
        assert!(geometry(bytes, block).is_err(), "{bytes} {block}");
    }
    let error = geometry(10_000_000_000, 4096).unwrap_err();
    assert!(error.message.contains("10000003072"), "{error}");
}

#[test]
fn initiator_names_follow_the_rfc_and_are_folded() {
    for good in [
        "iqn.2001-04.com.example",
        "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309",
        "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test",
        "eui.02004567A425678D",
        "naa.52004567BA64678D",
        "naa.62004567BA64678D0123456789ABCDEF",
    ] {
        assert_eq!(initiator(good).unwrap(), good.to_lowercase());
    }
    assert_eq!(initiator("IQN.1991-05.com.Microsoft:WIN-1").unwrap(), "iqn.1991-05.com.microsoft:win-1");
    let long = format!("iqn.2001-04.com.example:{}", "x".repeat(223));
    for bad in [
        "",
        "iqn",
        "iqn.",
        "host1",
        "iqn.2001-13.com.example",
        "iqn.2001-00.com.example",
        "iqn.01-04.com.example",
        "iqn.2001-04",
        "iqn.2001-04.",
        "iqn.2001-04.com..x",
        "iqn.2001-04.com.example:",
        "iqn.2001-04.com.example:a b",
        "iqn.2001-04.com.example:a/b",
        "iqn.+001-04.com.example",
        "eui.0200456",
        "eui.02004567A425678G",
        "naa.1234",
        "iqn.2001-04.com.example:\u{0}",
        "iqn.2026-11.io.ashlar:hôte",
        "iqn.2026-11.io.ashlar:\u{130}",
        &long,
    ] {
        assert!(initiator(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_host_needs_initiators_each_once() {
    let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    assert!(has_names([&[], &[], &[]]).is_err());
    assert!(has_names([&[], &names(&["nqn.2014-08.org.nvmexpress:uuid:1"]), &[]]).is_ok());
    assert!(has_names([&[], &[], &names(&["21:00:00:24:ff:00:00:01"])]).is_ok());
    assert_eq!(
        nqns(&names(&["nqn.2014-08.org.nvmexpress:uuid:A"])).unwrap(),
        ["nqn.2014-08.org.nvmexpress:uuid:A"]
    );
    for bad in ["iqn.2001-04.com.a:1", "nqn.", "nqn.a b", "nqn.2014-08.org.nvmexpress.discovery"] {
        assert!(nqns(&names(&[bad])).is_err(), "{bad}");
    }
    assert!(nqns(&names(&["nqn.a", "nqn.a"])).is_err());
    assert!(initiators(&names(&["iqn.2001-04.com.a:1", "IQN.2001-04.com.a:1"])).is_err());
    assert_eq!(initiators(&names(&["iqn.2001-04.com.a:1", "iqn.2001-04.com.a:2"])).unwrap().len(), 2);
}

#[test]
fn chap_secrets_are_long_and_different() {
    let pair = |user: &str, secret: &str| Chap::new(user, secret);
    let good = pair("host", "twelve chars");
    assert!(chap(Some(&good), None).is_ok());
    assert!(chap(None, None).is_ok());
    assert!(chap(Some(&good), Some(&pair("array", "another secret"))).is_ok());
    assert!(chap(Some(&good), Some(&pair("array", "twelve chars"))).is_err());
    assert!(chap(None, Some(&good)).is_err());
    assert!(chap(Some(&pair("host", "short")), None).is_err());
    assert!(chap(Some(&pair("", "twelve chars")), None).is_err());
    assert!(chap(Some(&pair("host", "twelve\nchars!")), None).is_err());
}

#[test]
fn errors_never_repeat_a_secret() {
    let error = chap(Some(&Chap::new("host", "hunter2")), None).unwrap_err();
    assert!(!error.message.contains("hunter2"));
    assert!(!format!("{:?}", Chap::new("host", "hunter2hunter2")).contains("hunter2"));
}

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use crate::Kind;

fn change<const N: usize>(labels: [(&str, Option<&str>); N]) -> LabelsChange {
    LabelsChange(labels.map(|(key, value)| (key.to_owned(), value.map(str::to_owned))).into())
}

#[test]
fn a_change_sets_takes_away_and_leaves_the_rest() {
    let first = Labels::default().with(&change([("a", Some("1")), ("b", Some("2"))])).unwrap();
    let second = first.with(&change([("a", None), ("c", Some("")), ("none", None)])).unwrap();
    assert_eq!(second.iter().collect::<Vec<_>>(), [("b", "2"), ("c", "")]);
    assert!(second.agree_with(&change([("b", Some("2")), ("a", None)])));
    assert!(!second.agree_with(&change([("b", Some("3"))])));
    assert!(!second.agree_with(&change([("d", Some(""))])));
}

#[test]
fn keys_and_values_are_bounded() {
    let (long_key, long_value) = ("k".repeat(MAX_LABEL_KEY_CHARS + 1), "v".repeat(MAX_LABEL_VALUE_BYTES + 1));
    for (key, value) in
        [("csi.example.com/name", "pvc-1"), ("9", "für ‑ alle"), (&long_key[1..], &long_value[1..])]
    {
        assert!(Labels::default().with(&change([(key, Some(value))])).is_ok(), "{key} {value}");
    }
    for (key, value) in [
        ("", "v"),
        ("-a", "v"),
        ("a b", "v"),
        ("ü", "v"),
        ("a=b", "v"),
        ("a", "two\nlines"),
        (&long_key, "v"),
        ("a", &long_value),
    ] {
        let error = Labels::default().with(&change([(key, Some(value))])).unwrap_err();
        assert_eq!(error.kind, Kind::Invalid, "{key:?} {value:?}");
    }
}

#[test]
fn an_object_has_so_many_labels_and_no_more() {
    let all =
        |count: usize| LabelsChange((0..count).map(|it| (format!("k{it}"), Some("v".into()))).collect());
    assert!(Labels::default().with(&all(MAX_LABELS)).is_ok());
    assert_eq!(Labels::default().with(&all(MAX_LABELS + 1)).unwrap_err().kind, Kind::Invalid);
}

#[test]
fn a_label_that_is_given_twice_is_refused() {
    let once = r#"{"a":"1","b":"2"}"#;
    assert_eq!(serde_json::from_str::<Labels>(once).unwrap().iter().count(), 2);
    assert_eq!(serde_json::from_str::<LabelsChange>(r#"{"a":"1","b":null}"#).unwrap().0.len(), 2);
    let set = |text: &str| LabelsChange::set(&mut serde_json::Deserializer::from_str(text));
    assert_eq!(set(once).unwrap().0.len(), 2);
    for twice in [r#"{"a":"1","a":"1"}"#, r#"{"a":"1","\u0061":"2"}"#] {
        let whys = [
            serde_json::from_str::<Labels>(twice).unwrap_err(),
            serde_json::from_str::<LabelsChange>(twice).unwrap_err(),
            set(twice).unwrap_err(),
        ];
        assert!(whys.iter().all(|why| why.to_string().contains("\"a\" is given twice")), "{whys:?}");
    }
}

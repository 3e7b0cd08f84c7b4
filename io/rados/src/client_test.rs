use super::*;
use serde_json::json;

fn dump() -> Value {
    json!({
        "pools": [
            { "pool_name": "three", "type": 1, "size": 3 },
            { "pool_name": "erasure", "type": 3, "size": 6, "erasure_code_profile": "wide" },
        ],
        "erasure_code_profiles": { "wide": { "k": "4", "m": "2" } },
    })
}

#[test]
fn redundancy_is_that_of_the_pool_and_a_journal_is_not_erasure_coded() {
    assert_eq!(redundancy(&dump(), "three", true), Ok(2));
    assert_eq!(redundancy(&dump(), "erasure", false), Ok(2));
    let refused = redundancy(&dump(), "erasure", true).expect_err("a journal is overwritten");
    assert!(refused.to_string().contains("replicated"), "{refused}");
    assert!(redundancy(&dump(), "other", false).is_err());
}

#[test]
fn errors_are_told_apart_and_name_the_pool() {
    assert_eq!(failure("p", -125), ObjectError::Guard);
    assert_eq!(failure("p", -2), ObjectError::Absent);
    assert_eq!([failure("p", -28), failure("p", -122)], [ObjectError::Full, ObjectError::Full]);
    assert_eq!(failure("p", -108), ObjectError::Blocklisted);
    for errno in [-1, -5, -95] {
        let ObjectError::Failed(text) = failure("volumes", errno) else { panic!("{errno}") };
        assert!(text.contains("volumes"), "{text}");
    }
}

#[test]
fn a_cluster_that_is_not_there_is_an_error_that_says_what_to_do() {
    let location = Location {
        conf: "/nonexistent/ceph.conf".into(),
        id: "ashlar".into(),
        meta: "meta".into(),
        data: "data".into(),
        namespace: "test".into(),
    };
    let Err(Error::Unusable(what)) = Client::connect(location) else { panic!("it is there") };
    assert!(what.contains("librados2") || what.contains("/nonexistent/ceph.conf"), "{what}");
}

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

#[test]
fn the_session_is_found_among_cookies() {
    assert_eq!(cookie(&headers(&[("cookie", "a=b; ashlar-session=xyz; c=d")])), Some("xyz"));
    assert_eq!(cookie(&headers(&[("cookie", "not-ashlar-session=xyz")])), None);
    assert_eq!(cookie(&headers(&[])), None);
}

#[test]
fn pages_of_other_sites_are_recognised() {
    for (elsewhere, pairs) in [
        (false, &[("host", "a:1")][..]),
        (false, &[("host", "a:1"), ("origin", "https://a:1")]),
        (true, &[("host", "a:1"), ("origin", "https://a:2")]),
        (true, &[("host", "a:1"), ("origin", "null")]),
        (true, &[("host", "a:1"), ("origin", "https://a:1"), ("sec-fetch-site", "same-site")]),
        (false, &[("host", "a:1"), ("sec-fetch-site", "same-origin")]),
    ] {
        assert_eq!(is_from_elsewhere(&headers(pairs)), elsewhere, "{pairs:?}");
    }
}

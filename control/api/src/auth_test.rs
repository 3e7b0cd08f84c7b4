#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use axum::http::HeaderValue;

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

#[test]
fn the_user_that_a_request_is_made_for_is_one_printable_name() {
    let represented = |values: &[&[u8]]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ON_BEHALF_OF, HeaderValue::from_bytes(value).unwrap());
        }
        super::represented(&headers).map_err(|problem| problem.status)
    };
    let longest = [b'a'; MAX_REPRESENTED_BYTES];
    let name = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(represented(&[]), Ok(None));
    assert_eq!(represented(&["VSPHERE.LOCAL\\Ada Müller".as_bytes()]), name("VSPHERE.LOCAL\\Ada Müller"));
    assert_eq!(represented(&[&longest]), name(&"a".repeat(MAX_REPRESENTED_BYTES)));
    let too_long = [b'a'; MAX_REPRESENTED_BYTES + 1];
    // Characters of Unicode that a header may have: a control character, and those that turn or hide others.
    let [control, turned, hidden] = ["a\u{85}", "a\u{202e}nimda", "ad\u{200b}min"].map(str::as_bytes);
    for wrong in [
        &[b"".as_slice()][..],
        &[b" "],
        &[&too_long],
        &[b"a", b"b"],
        &[b"\xFF"],
        &[control],
        &[turned],
        &[hidden],
    ] {
        assert_eq!(represented(wrong), Err(400), "{wrong:?}");
    }
}

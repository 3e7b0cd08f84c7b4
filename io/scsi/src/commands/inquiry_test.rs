use super::*;

#[test]
fn texts_are_padded_and_cut() {
    let mut out = [0; 8];
    put_text(&mut out, "ASHLAR");
    assert_eq!(&out, b"ASHLAR  ");
    put_text(&mut out, "a b\u{e9}cdefgh");
    assert_eq!(&out, b"a b  cde");
}

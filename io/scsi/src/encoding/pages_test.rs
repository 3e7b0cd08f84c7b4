use super::*;

fn control(d_sense: u8, swp: u8) -> [u8; 12] {
    [0x0A, 10, d_sense << 2, 0x10, swp << 3, 0, 0, 0, 0xFF, 0xFF, 0, 0]
}

#[test]
fn images_agree_in_length_with_their_headers() {
    for page in &PAGES {
        assert_eq!(page.default.len(), page.changeable.len());
        let expected = match page.header() {
            2 => 2 + usize::from(page.default[1]),
            _ => 4 + usize::from(u16::from_be_bytes([page.default[2], page.default[3]])),
        };
        assert_eq!(expected, page.default.len());
        assert_eq!((page.default[0] & 0x3F, page.default[0] & 0x40 != 0), (page.code, page.subpage != 0));
    }
}

#[test]
fn only_changeable_bits_change() {
    let pages = Pages::default();
    let next = pages.select(List(&control(1, 1)), false).unwrap();
    assert!(next.current().descriptor_sense && next.current().write_protect);
    let mut other = control(0, 0);
    other[3] = 0;
    assert_eq!(pages.select(List(&other), false), Err(Fault::list_byte(3)));
    assert_eq!(pages.select(List(&other[..11]), false), Err(Code::PARAMETER_LIST_LENGTH.into()));
    assert_eq!(pages.select(List(&[0x3E, 0]), false), Err(Fault::list_byte(0)));
    assert_eq!(pages.select(List(&[0x0A, 0]), false), Err(Fault::list_byte(1)));
}

#[test]
fn a_reset_goes_back_to_what_was_saved() {
    let pages = Pages::default().select(List(&control(1, 0)), true).unwrap();
    let mut pages = pages.select(List(&control(1, 1)), false).unwrap();
    pages.reset();
    assert!(pages.current().descriptor_sense && !pages.current().write_protect);
    assert_eq!(Pages::from_saved(&pages.saved_bytes()), Some(pages));
    assert_eq!(Pages::from_saved(&[1, 2, 3]), None);
}

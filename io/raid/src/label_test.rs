use super::*;
use crate::geometry::Sizes;

fn label(epoch: u64, generation: u64) -> LabelPage {
    let bytes = 64 << 20;
    LabelPage::Label(Box::new(Label {
        optional_features: 0,
        array: 1,
        drive: 2,
        generation,
        epoch,
        bytes,
        journal: 1,
        slot: 0,
        sealed: false,
        shared: false,
        failures_to_tolerate: None,
        segments: 0,
        geometry: Geometry::plan(&[bytes], &Sizes::default()).unwrap(),
        members: Vec::new(),
    }))
}

#[test]
fn the_label_that_is_worth_less_is_written_first() {
    let first = |copies: [LabelPage; 2]| {
        Candidate {
            name: "drive".into(),
            bytes: 64 << 20,
            copies,
            superblock_epoch: None,
            unknown_superblock: None,
            named: [None, None],
        }
        .older_copy()
    };
    assert_eq!(first([label(3, 7), label(3, 7)]), 0);
    assert_eq!(first([label(3, 7), label(3, 6)]), 1, "the power failed between the two");
    assert_eq!(first([label(3, 7), label(4, 1)]), 0);
    assert_eq!(first([label(3, 7), LabelPage::Other]), 1, "the power failed while the second was written");
    assert_eq!(first([LabelPage::Other, label(3, 7)]), 0);
    assert_eq!(first([LabelPage::Blank, LabelPage::Other]), 0);
}

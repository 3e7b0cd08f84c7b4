use super::*;

const WORDS: Words = Words { force: "--force", take: "--take", force_files: false };

fn judge(examined: &Examined, contents: &DriveContents, consent: &Consent) -> String {
    refusal("/dev/sdx", examined, contents, consent, WORDS).unwrap_or_default()
}

fn device() -> Examined {
    Examined { is_device: true, ..Examined::default() }
}

fn force(arrays: &[u128]) -> Consent {
    Consent { foreign: true, arrays: arrays.to_vec() }
}

#[test]
fn what_is_blank_and_unused_is_taken() {
    for examined in [device(), Examined::default()] {
        assert_eq!(judge(&examined, &DriveContents::Blank, &Consent::default()), "");
        assert_eq!(judge(&examined, &DriveContents::Blank, &force(&[])), "");
    }
}

#[test]
fn what_is_in_use_is_never_taken() {
    let examined = Examined { users: vec!["sdx1 is mounted at /home".into()], ..device() };
    for contents in [DriveContents::Blank, DriveContents::Array { array: 7, slot: None }] {
        let said = judge(&examined, &contents, &force(&[7]));
        assert!(said.contains("sdx1 is mounted at /home"), "{said}");
    }
}

#[test]
fn data_of_others_need_force_and_say_what_they_are() {
    let known = Examined { signatures: vec!["btrfs \"pool\" at byte 65600".into()], ..device() };
    let foreign = DriveContents::Foreign { at: 512 };
    for contents in [DriveContents::Blank, foreign.clone()] {
        let said = judge(&known, &contents, &Consent::default());
        assert!(said.contains("btrfs \"pool\"") && said.ends_with("--force to destroy that"), "{said}");
        assert_eq!(judge(&known, &contents, &force(&[])), "");
    }
    let said = judge(&device(), &foreign, &Consent::default());
    assert!(said.contains("unknown data at byte 512"), "{said}");
    let file = Examined { is_device: false, ..known };
    let said = judge(&file, &foreign, &Consent::default());
    assert!(!said.contains("--force") && said.contains("make an empty one"), "{said}");
    let said = judge(&file, &foreign, &force(&[]));
    assert!(said.contains("only block devices"), "{said}");
    let files = Words { force_files: true, ..WORDS };
    assert_eq!(refusal("f", &file, &foreign, &force(&[]), files), None);
}

#[test]
fn a_drive_of_an_array_is_taken_only_when_that_array_is_named() {
    let contents = DriveContents::Array { array: 7, slot: Some((2, 5)) };
    for consent in [Consent::default(), force(&[]), force(&[8])] {
        let said = judge(&device(), &contents, &consent);
        assert!(said.contains("slot 2 of 5") && said.ends_with(&format!("--take {:032x}", 7)), "{said}");
    }
    let named = Consent { arrays: vec![7], ..Consent::default() };
    for examined in [device(), Examined::default()] {
        assert_eq!(judge(&examined, &contents, &named), "", "a file that is ours, too");
    }
    // Another program has begun to use it: both have to be reported.
    let mixed = Examined { signatures: vec!["gpt at byte 512".into()], ..device() };
    assert!(judge(&mixed, &contents, &named).contains("gpt"));
    assert!(judge(&mixed, &contents, &force(&[])).contains("belongs to"));
    assert_eq!(judge(&mixed, &contents, &force(&[7])), "");
}

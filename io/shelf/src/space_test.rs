use super::*;

fn wish(least_parity: u8, promised: u32) -> Wish {
    Wish { stripe_pages: 96, least_parity, promised }
}

fn space(drives: &[u32]) -> Space {
    Space { drives: drives.iter().map(|granules| (*granules > 0).then(|| Free::new(*granules))).collect() }
}

#[test]
fn runs_are_taken_tightly_and_join_when_they_come_back() {
    let mut free = Free::new(100);
    assert_eq!((free.take(30), free.take(30), free.take(30)), (Some(0), Some(30), Some(60)));
    free.give(0, 30);
    assert_eq!(free.take(10), Some(90), "the shortest run that fits");
    free.give(60, 30);
    free.give(30, 30);
    assert_eq!((free.granules(), free.take(90)), (90, Some(0)));
    assert!(!free.take_at(0, 1));
    free.give(20, 40);
    assert!(!free.take_at(50, 11) && free.take_at(30, 10) && free.take_at(20, 10) && free.take_at(40, 20));
    assert_eq!(free.granules(), 0);
}

#[test]
fn eight_drives_hold_six_and_two() {
    let mut space = space(&[160; 8]);
    assert_eq!(space.room(&wish(2, 0)), 10);
    for left in (0..10).rev() {
        let (form, columns) = space.place(&wish(2, left)).expect("room");
        assert_eq!((form, columns.len()), (Form { data: 6, parity: 2 }, 8));
    }
    assert_eq!(space.place(&wish(2, 0)), None);
}

#[test]
fn with_a_drive_gone_parity_is_kept_while_the_promise_is() {
    // 20 granules a drive are left of each of 7; 16 a column at six and two, 20 at five and two.
    let gone = |granules| space(&[granules, granules, granules, 0, granules, granules, granules, granules]);
    let mut roomy = gone(80);
    let (form, columns) = roomy.place(&wish(1, 3)).expect("room");
    assert_eq!(form, Form { data: 5, parity: 2 });
    assert!(columns.iter().all(|(slot, _)| *slot != 3));
    let mut tight = gone(80);
    let mut forms = Vec::new();
    for left in (0..5).rev() {
        forms.push(tight.place(&wish(1, left)).expect("what was promised is kept").0);
    }
    assert_eq!(forms[0], Form { data: 6, parity: 1 });
    assert_eq!(space(&[160; 8]).room(&wish(2, 0)), 10);
}

#[test]
fn new_drives_beside_full_ones_are_used_at_once() {
    let mut space = space(&[10, 10, 10, 10, 10, 10, 10, 10, 1000, 1000, 1000, 1000]);
    let (form, columns) = space.place(&wish(2, 0)).expect("room");
    assert_eq!((form, columns[0].0), (Form { data: 2, parity: 2 }, 8));
}

#[test]
fn few_drives_mirror() {
    let form = |drives: usize| space(&vec![500; drives]).place(&wish(2, 0)).expect("room").0;
    let forms: Vec<_> = (1..=6).map(form).map(|form| (form.data, form.parity)).collect();
    assert_eq!(forms, [(1, 0), (1, 1), (1, 2), (2, 2), (3, 2), (4, 2)]);
}

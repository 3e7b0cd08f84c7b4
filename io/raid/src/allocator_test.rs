use super::*;

const STRIPE: u32 = 96;

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
    assert_eq!(space.rooms(STRIPE)[2], 10);
    for _ in 0..10 {
        let (form, columns) = space.place(2, STRIPE).expect("room");
        assert_eq!((form, columns.len()), (Form { data: 6, parity: 2 }, 8));
    }
    assert_eq!(space.place(2, STRIPE), None);
}

#[test]
fn with_a_drive_gone_there_is_more_room_with_less_parity() {
    // 80 granules are left of each of 7; 16 a column at six and one, 20 at five and two, 14 without any.
    let mut gone = space(&[80, 80, 80, 0, 80, 80, 80, 80]);
    assert_eq!(gone.rooms(STRIPE), [5, 5, 4]);
    let (form, columns) = gone.place(2, STRIPE).expect("room");
    assert_eq!(form, Form { data: 5, parity: 2 });
    assert!(columns.iter().all(|(slot, _)| *slot != 3));
    assert_eq!(gone.place(1, STRIPE).expect("room").0, Form { data: 6, parity: 1 });
    assert_eq!((gone.most_parity(), space(&[500, 500]).rooms(STRIPE)), (2, [10, 5, 0]));
}

#[test]
fn new_drives_beside_full_ones_are_used_at_once() {
    let mut space = space(&[10, 10, 10, 10, 10, 10, 10, 10, 1000, 1000, 1000, 1000]);
    let (form, columns) = space.place(2, STRIPE).expect("room");
    assert_eq!((form, columns[0].0), (Form { data: 2, parity: 2 }, 8));
}

#[test]
fn few_drives_mirror() {
    let form =
        |drives: usize| space(&vec![500; drives]).place(Form::of(drives).parity, STRIPE).expect("room").0;
    let forms: Vec<_> = (1..=6).map(form).map(|form| (form.data, form.parity)).collect();
    assert_eq!(forms, [(1, 0), (1, 1), (1, 2), (2, 2), (3, 2), (4, 2)]);
}

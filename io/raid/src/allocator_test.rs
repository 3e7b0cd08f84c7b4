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
        let (profile, columns) = space.place(2, STRIPE).expect("room");
        assert_eq!((profile, columns.len()), (Profile { data: 6, parity: 2 }, 8));
    }
    assert_eq!(space.place(2, STRIPE), None);
}

#[test]
fn with_a_drive_gone_there_is_more_room_with_less_parity() {
    // 80 granules are left of each of 7; 16 a column at six and one, 20 at five and two, 14 without any.
    let mut gone = space(&[80, 80, 80, 0, 80, 80, 80, 80]);
    assert_eq!(gone.rooms(STRIPE), [5, 5, 4]);
    let (profile, columns) = gone.place(2, STRIPE).expect("room");
    assert_eq!(profile, Profile { data: 5, parity: 2 });
    assert!(columns.iter().all(|(slot, _)| *slot != 3));
    assert_eq!(gone.place(1, STRIPE).expect("room").0, Profile { data: 6, parity: 1 });
    assert_eq!((gone.max_parity(), space(&[500, 500]).rooms(STRIPE)), (2, [10, 5, 0]));
}

#[test]
fn new_drives_beside_full_ones_are_used_at_once() {
    let mut space = space(&[10, 10, 10, 10, 10, 10, 10, 10, 1000, 1000, 1000, 1000]);
    let (profile, columns) = space.place(2, STRIPE).expect("room");
    assert_eq!((profile, columns[0].0), (Profile { data: 2, parity: 2 }, 8));
}

#[test]
fn few_drives_mirror() {
    let profile =
        |drives: usize| space(&vec![500; drives]).place(Profile::of(drives).parity, STRIPE).expect("room").0;
    let profiles: Vec<_> = (1..=6).map(profile).map(|profile| (profile.data, profile.parity)).collect();
    assert_eq!(profiles, [(1, 0), (1, 1), (1, 2), (2, 2), (3, 2), (4, 2)]);
}

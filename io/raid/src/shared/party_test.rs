use super::super::{Newcomer, SharedMedium};
use super::*;
use crate::{DriveShelf, FormatOptions, Limits, MemDrive, Opening, Shelf};
use bytes::Bytes;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the model holds nothing back"),
    }
}

/// Waits for replies without a limit.
fn forever() -> Timer {
    Arc::new(|_, _| {})
}

fn drives(media: &[Arc<SharedMedium>], server: u32) -> Vec<Arc<dyn Drive>> {
    media.iter().map(|medium| medium.port(server)).collect()
}

/// Drives with an array that is not shared yet.
fn media(count: usize) -> Vec<Arc<SharedMedium>> {
    let media: Vec<_> = (0..count).map(|at| SharedMedium::new(format!("drive {at}"), 16 << 20)).collect();
    let options = FormatOptions { array: 0xa5, ..FormatOptions::default() };
    now(DriveShelf::format(drives(&media, 0), options)).unwrap();
    media
}

/// A process of a controller that is registered at all drives.
fn process(media: &[Arc<SharedMedium>], own: usize, key: u64) -> (SharedArray, Party) {
    let array = now(find(&drives(media, own as u32), &forever())).unwrap();
    let party = array.party(own, key);
    array.drives.iter().for_each(|(_, drive)| now(party.take_part(&**drive)).unwrap());
    (array, party)
}

/// Opens the shelf as the home.
fn open(array: &SharedArray, party: &Party, epoch: u64) -> Result<Arc<DriveShelf>> {
    array.drives.iter().try_for_each(|(_, drive)| now(party.take_over(&**drive)))?;
    let drives = array.drives.iter().map(|(_, drive)| drive.drive()).collect();
    let opening = Opening { salt: epoch, key: None };
    now(DriveShelf::open_shared(drives, opening, Limits::default(), epoch))
}

fn append(shelf: &DriveShelf, text: &'static str) -> Result {
    let (done, appended) = wait();
    shelf.append(Bytes::from_static(text.as_bytes()), Vec::new(), done);
    now(appended).map(|_| ())
}

fn try_recover(shelf: &DriveShelf) -> Result<Vec<Bytes>> {
    let (done, recovered) = wait();
    shelf.recover(crate::JournalPos(1), done);
    Ok(now(recovered)?.into_iter().map(|batch| batch.head).collect())
}

fn recover(shelf: &DriveShelf) -> Vec<Bytes> {
    try_recover(shelf).unwrap()
}

#[test]
fn a_home_that_was_followed_writes_nothing_more_and_nothing_is_lost() {
    let media = media(5);
    let (a, first) = process(&media, 0, 11);
    let old = open(&a, &first, 10).unwrap();
    assert_eq!(old.epoch(), 10);
    recover(&old);
    let (b, second) = process(&media, 1, 22);
    append(&old, "one").unwrap();
    append(&old, "two").unwrap();
    let new = open(&b, &second, 12).unwrap();
    assert!(matches!(append(&old, "late"), Err(Error::Fenced { .. })));
    assert_eq!(recover(&new), ["one", "two"]);
    append(&new, "three").unwrap();
    assert!(matches!(append(&old, "later"), Err(Error::Fenced { .. })), "it has stopped for good");
}

/// Counter-proof: without reservations, the late write of the former home succeeds, and is lost.
#[test]
fn drives_that_ignore_reservations_lose_a_late_write() {
    let media = media(5);
    let (a, first) = process(&media, 0, 11);
    let (b, second) = process(&media, 1, 22);
    media.iter().for_each(|medium| medium.ignore_reservations());
    let old = open(&a, &first, 10).unwrap();
    recover(&old);
    append(&old, "one").unwrap();
    let new = open(&b, &second, 12).unwrap();
    assert_eq!(recover(&new), ["one"]);
    append(&new, "two").unwrap();
    append(&old, "late").unwrap();
    let (array, party) = process(&media, 0, 33);
    let found = open(&array, &party, 14).and_then(|last| try_recover(&last)).unwrap_or_default();
    let is_there = |text: &str| found.iter().any(|head| head == text);
    assert!(!is_there("two") || !is_there("late"), "{found:?}");
}

#[test]
fn a_shared_array_is_not_opened_without_the_other_controller() {
    let media = media(3);
    let (array, party) = process(&media, 0, 11);
    drop(open(&array, &party, 5).unwrap());
    let refused = now(DriveShelf::open(drives(&media, 0), Opening::default())).err().unwrap();
    assert!(refused.to_string().contains("--controller"), "{refused}");
    let found = now(find(&drives(&media, 1), &forever())).unwrap();
    assert!(found.is_shared && found.epoch == 5 && found.drives.len() == 3);
}

#[test]
fn a_home_needs_more_than_half_of_the_drives() {
    let media = media(4);
    let (mut array, party) = process(&media, 0, 11);
    drop(open(&array, &party, 5).unwrap());
    array.retain(|name| name > "drive 1");
    let refused = open(&array, &party, 7).err().unwrap();
    assert!(refused.to_string().contains("More than half"), "{refused}");
}

#[test]
fn an_array_is_shared_only_with_all_of_three_drives_or_more() {
    let refused =
        |media: &[Arc<SharedMedium>]| now(find(&drives(media, 0), &forever())).err().unwrap().to_string();
    assert!(refused(&media(2)).contains("3 or more"));
    assert!(refused(&media(4)[1..]).contains("missing"));
}

#[test]
fn drives_without_reservations_and_servers_that_look_alike_are_refused() {
    let plain: Vec<Arc<dyn Drive>> =
        (0..3).map(|at| MemDrive::new(format!("plain {at}"), 16 << 20) as Arc<dyn Drive>).collect();
    now(DriveShelf::format(plain.clone(), FormatOptions { array: 1, ..FormatOptions::default() })).unwrap();
    let array = now(find(&plain, &forever())).unwrap();
    let refused = now(array.party(0, 5).take_part(&*plain[0])).unwrap_err().to_string();
    assert!(refused.contains("has no persistent reservations"), "{refused}");

    let media = media(3);
    let (array, _) = process(&media, 0, 11);
    let refused = now(array.party(1, 22).take_part(&*media[0].port(0))).unwrap_err().to_string();
    assert!(refused.contains("host identifier"), "{refused}");
}

#[test]
fn a_drive_that_comes_later_is_reserved_before_its_first_change() {
    let media = media(3);
    let (_, party) = process(&media, 0, 11);
    let added = SharedMedium::new("added", 16 << 20);
    let drive = Newcomer::new(added.port(0), Arc::new(party), forever());
    let page = || vec![Bytes::from(vec![7; ALIGN])];
    let (done, read) = wait();
    drive.read(0, ALIGN as u32, done);
    now(read).unwrap();
    assert!(added.check_write(1).is_ok(), "it was looked at");
    let (done, written) = wait();
    drive.write(0, page(), true, done);
    now(written).unwrap();
    assert!(added.check_write(1).is_err() && added.check_write(0).is_ok());
    // Another host holds this drive.
    let taken = SharedMedium::new("taken", 16 << 20);
    for step in [ReservationStep::Register { key: 9 }, ReservationStep::Reserve { key: 9 }] {
        assert!(taken.reserve(99, step));
    }
    let (_, party) = process(&media, 0, 12);
    let drive = Newcomer::new(taken.port(0), Arc::new(party), forever());
    let (done, written) = wait();
    drive.write(0, page(), true, done);
    assert!(now(written).is_err());
}

/// A starting controller does not end another use of the drive.
#[test]
fn a_drive_that_another_host_has_reserved_is_refused() {
    let media = media(3);
    let array = now(find(&drives(&media, 0), &forever())).unwrap();
    for step in [ReservationStep::Register { key: 9 }, ReservationStep::Reserve { key: 9 }] {
        assert!(media[0].reserve(99, step));
    }
    // The process may write beside that host, since its own reservation has the same type; but it does not take over
    // the drive.
    let party = array.party(0, 11);
    now(party.take_part(&*array.drives[0].1)).unwrap();
    assert!(now(party.take_over(&*array.drives[0].1)).is_err());
    assert!(media[0].check_write(99).is_ok());
}

//! Drives that come and go, and work that takes long.

use crate::rig::{Rig, Up};
use array::{
    AddDrive, CancelJob, ChangeSettings, CreateVolume, Drive, DriveState, EvacuateDrive, Evacuation,
    Examined, Health, Job, JobKind, JobState, Kind, ListAlerts, ListAvailableDrives, ListDrives, ListEvents,
    ListJobs, Protection, ReplaceDrive, Request, Settings, SettingsChange, Severity, ShowDrive, ShowJob,
    ShowProtection, StartScrub, Verdict,
};
use block::{Disk, Op};
use raid::{DriveShelf, FormatOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;

async fn job<R: Request<Answer = Job>>(up: &Up, action: R) -> Job {
    up.perform(action).await.unwrap()
}

async fn jobs(up: &Up) -> Vec<Job> {
    up.perform(ListJobs).await.unwrap()
}

async fn drives(up: &Up) -> Vec<Drive> {
    up.perform(ListDrives).await.unwrap()
}

async fn protection(up: &Up) -> Protection {
    up.perform(ShowProtection).await.unwrap()
}

async fn kinds(up: &Up) -> Vec<String> {
    let action = ListEvents { limit: Some(100), ..ListEvents::default() };
    up.perform(action).await.unwrap().into_iter().map(|it| it.kind).collect()
}

fn add(path: &str, force: bool) -> AddDrive {
    AddDrive { path: path.into(), force, take_from_array: None }
}

fn evacuate(which: &str) -> EvacuateDrive {
    EvacuateDrive { slot: which.into(), change: Evacuation::default() }
}

async fn refused<R: Request>(up: &Up, action: R) -> (Kind, String) {
    let error = up.perform(action).await.unwrap_err();
    (error.kind, error.message)
}

#[tokio::test]
async fn a_drive_is_added_and_is_there_after_a_restart() {
    let rig = Rig::new();
    let up = rig.up().await;
    up.array.tick().await;
    rig.machine.plug("/dev/new");
    let available = || async {
        let found = up.perform(ListAvailableDrives).await.unwrap();
        found.into_iter().map(|drive| drive.path).collect::<Vec<_>>()
    };
    assert_eq!(available().await, ["/dev/new"]);
    let new = up.perform(add("/dev/new", false)).await.unwrap();
    assert_eq!((new.slot, new.path.as_deref(), new.state), (4, Some("/dev/new"), DriveState::Online));
    assert!(available().await.is_empty(), "it is of the array now");
    assert!(rig.machine.remembered.lock().unwrap().contains(&"/dev/new".into()));
    assert_eq!(refused(&up, add("/dev/new", true)).await.0, Kind::Conflict);
    assert_eq!(kinds(&up).await, ["drive.added"]);
    up.down().await;
    let up = rig.up().await;
    assert_eq!(drives(&up).await.len(), 5);
    let same = up.perform(ShowDrive { slot: "/dev/new".into() }).await.unwrap();
    assert_eq!((same.slot, same.id), (4, new.id));
}

#[tokio::test]
async fn what_is_no_blank_drive_is_refused_with_what_to_do() {
    let rig = Rig::new();
    let up = rig.up().await;
    for path in ["dev/new", "", "/a\nb", &format!("/{}", "x".repeat(5000))] {
        assert_eq!(refused(&up, add(path, true)).await.0, Kind::Invalid, "{path}");
    }
    let (kind, message) = refused(&up, add("/dev/none", true)).await;
    assert!(kind == Kind::Precondition && message.contains("no such file"), "{message}");
    rig.machine.plug("/dev/used").with(|bytes| bytes[..11].copy_from_slice(b"file system"));
    let (kind, message) = refused(&up, add("/dev/used", false)).await;
    assert!(
        kind == Kind::Precondition
            && message.contains("with --force")
            && message.ends_with(" to destroy that"),
        "{message}"
    );
    assert_eq!(drives(&up).await.len(), 4);
    up.perform(add("/dev/used", true)).await.unwrap();
    assert_eq!(drives(&up).await.len(), 5);
    assert_eq!(refused(&up, ShowDrive { slot: "9".into() }).await.0, Kind::NotFound);
    assert_eq!(refused(&up, evacuate("/dev/none")).await.0, Kind::NotFound);
}

#[tokio::test]
async fn what_the_machine_knows_of_a_drive_decides_whether_it_may_be_overwritten() {
    let rig = Rig::new();
    let up = rig.up().await;
    let is = |path: &str, examined| rig.machine.examined.lock().unwrap().insert(path.into(), examined);
    rig.machine.plug("/dev/used");
    let btrfs = vec!["btrfs \"pool\" at byte 65600".to_owned()];
    for (examined, force, says) in [
        (Err("install wipefs".into()), true, "install wipefs"),
        (
            Ok(Examined { users: vec!["used1 is mounted at /home".into()], ..device() }),
            true,
            "mounted at /home",
        ),
        (Ok(Examined { signatures: btrfs.clone(), ..device() }), false, "btrfs \"pool\""),
        (
            Ok(Examined { signatures: btrfs.clone(), is_device: false, ..device() }),
            true,
            "only block devices",
        ),
    ] {
        is("/dev/used", examined);
        let replace = ReplaceDrive { slot: "0".into(), new: add("/dev/used", force) };
        for (kind, message) in [refused(&up, add("/dev/used", force)).await, refused(&up, replace).await] {
            assert!(kind == Kind::Precondition && message.contains(says), "{message}");
        }
    }
    assert_eq!(drives(&up).await.len(), 4);
    is("/dev/used", Ok(Examined { signatures: btrfs, ..device() }));
    up.perform(add("/dev/used", true)).await.unwrap();
}

#[tokio::test]
async fn a_drive_of_another_array_is_taken_when_that_array_is_named() {
    let rig = Rig::new();
    let up = rig.up().await;
    let plugged: Vec<Arc<dyn shelf::Drive>> = vec![rig.machine.plug("/dev/other")];
    let options = FormatOptions { array: 0xabc, ..FormatOptions::default() };
    drop(DriveShelf::format(plugged, options).await.unwrap());
    let take = |array: &str| AddDrive { take_from_array: Some(array.into()), ..add("/dev/other", true) };
    for action in [add("/dev/other", false), add("/dev/other", true), take(&format!("{:032x}", 7))] {
        let (kind, message) = refused(&up, action).await;
        assert!(kind == Kind::Precondition && message.ends_with(&format!("{:032x}", 0xabc)), "{message}");
    }
    for wrong in ["abc", "", &"+".repeat(32), &"g".repeat(32)] {
        assert_eq!(refused(&up, take(wrong)).await.0, Kind::Invalid, "{wrong}");
    }
    up.perform(take(&format!("{:032X}", 0xabc))).await.unwrap();
    assert_eq!(drives(&up).await.len(), 5);
}

/// Waits until no drive leaves any more, and everything that there is to say about that was said.
async fn settled(rig: &Rig, up: &Up) {
    while {
        up.shelf.settle().await;
        tokio::task::yield_now().await;
        rig.clock.fetch_add(5, Ordering::SeqCst);
        up.array.tick().await;
        drives(up).await.iter().any(|drive| drive.state != DriveState::Online)
    } {}
    rig.clock.fetch_add(5, Ordering::SeqCst);
    up.array.tick().await;
}

fn device() -> Examined {
    Examined { is_device: true, ..Examined::default() }
}

#[tokio::test]
async fn a_drive_is_emptied_as_a_job_and_leaves() {
    let rig = Rig::new();
    let up = rig.up().await;
    up.array.tick().await;
    rig.machine.plug("/dev/new");
    up.perform(add("/dev/new", false)).await.unwrap();
    let begun = job(&up, evacuate("0")).await;
    assert_eq!((begun.kind, begun.state, begun.slot), (JobKind::Evacuate, JobState::Running, Some(0)));
    assert_eq!(
        (begun.user.as_str(), begun.description.as_str()),
        ("ada", "empty the drive drive0 in slot 0")
    );
    assert_eq!(refused(&up, evacuate("drive0")).await.0, Kind::Conflict);
    up.shelf.settle().await;
    up.array.tick().await;
    let ended = job(&up, ShowJob { id: begun.id.clone() }).await;
    assert_eq!((ended.state, ended.progress, ended.ended), (JobState::Done, 1.0, Some(begun.started)));
    assert!(drives(&up).await.iter().all(|drive| drive.slot != 0));
    assert_eq!(kinds(&up).await[..2], ["drive.evacuated", "drive.evacuating"]);
    assert_eq!(refused(&up, CancelJob { id: begun.id }).await.0, Kind::Precondition);
    assert_eq!(protection(&up).await.tolerates, 2);
}

#[tokio::test]
async fn reduced_protection_is_accepted_by_name_and_is_a_critical_alert() {
    let rig = Rig::new();
    let up = rig.up().await;
    rig.machine.plug("/dev/new");
    up.perform(add("/dev/new", false)).await.unwrap();
    settled(&rig, &up).await;
    // Both at once: the second counts the first as gone.
    job(&up, evacuate("0")).await;
    job(&up, evacuate("1")).await;
    for drive in ["2", "3", "4"] {
        let (kind, message) = refused(&up, evacuate(drive)).await;
        assert!(kind == Kind::Precondition && message.contains("only one more drive may fail"), "{message}");
        assert!(message.ends_with("--accept-reduced-protection"), "{message}");
    }
    let warned = |which: &str| {
        let show = ShowDrive { slot: which.into() };
        let up = &up;
        async move {
            let drive = up.perform(show).await.unwrap();
            drive.evacuation_warning
        }
    };
    assert!(warned("2").await.unwrap().contains("the array promises 2"));
    assert_eq!(warned("0").await, None, "it leaves anyway");
    settled(&rig, &up).await;
    let open = async || {
        let alerts = up.perform(ListAlerts).await.unwrap();
        let open = alerts.into_iter().filter(|it| it.closed.is_none());
        open.map(|it| (it.kind, it.severity)).collect::<Vec<_>>()
    };
    assert_eq!(open().await, []);
    let accepted = EvacuateDrive { slot: "2".into(), change: Evacuation { accept_reduced_protection: true } };
    job(&up, accepted).await;
    assert!(refused(&up, evacuate("3")).await.1.contains("data is lost with the next drive that fails"));
    settled(&rig, &up).await;
    assert_eq!(open().await, [("protection.degraded".into(), Severity::Critical)]);
    // One for one costs nothing more.
    rig.machine.plug("/dev/other");
    let replace = ReplaceDrive { slot: "3".into(), new: add("/dev/other", false) };
    up.perform(replace).await.unwrap();
    settled(&rig, &up).await;
    assert_eq!(drives(&up).await.len(), 2);
    // A third drive brings back what was promised.
    rig.machine.plug("/dev/third");
    up.perform(add("/dev/third", false)).await.unwrap();
    settled(&rig, &up).await;
    assert_eq!((open().await, protection(&up).await.tolerates), (vec![], 2));
}

#[tokio::test]
async fn an_evacuation_goes_on_after_a_restart_and_can_be_cancelled() {
    let rig = Rig::new();
    let up = rig.up().await;
    rig.machine.plug("/dev/new");
    up.perform(add("/dev/new", false)).await.unwrap();
    job(&up, evacuate("0")).await;
    up.down().await;
    let up = rig.up().await;
    up.array.tick().await;
    let running = jobs(&up).await.pop().unwrap();
    assert_eq!((running.kind, running.state, running.slot), (JobKind::Evacuate, JobState::Running, Some(0)));
    assert_eq!(running.user, "array");
    let cancelled = job(&up, CancelJob { id: running.id }).await;
    assert_eq!(cancelled.state, JobState::Cancelled);
    up.shelf.settle().await;
    up.array.tick().await;
    assert_eq!(drives(&up).await[0].state, DriveState::Online);
    assert_eq!(jobs(&up).await.len(), 1);
}

#[tokio::test]
async fn a_drive_is_replaced_by_adding_one_and_emptying_the_other() {
    let rig = Rig::new();
    let up = rig.up().await;
    rig.machine.plug("/dev/new");
    let replace = ReplaceDrive { slot: "2".into(), new: add("/dev/new", false) };
    let new = up.perform(replace).await.unwrap();
    assert_eq!(new.slot, 4);
    assert_eq!(drives(&up).await[2].state, DriveState::Evacuating);
    up.shelf.settle().await;
    up.array.tick().await;
    assert_eq!(drives(&up).await.iter().map(|drive| drive.slot).collect::<Vec<_>>(), [0, 1, 3, 4]);
}

#[tokio::test]
async fn a_scrub_is_a_job_and_its_result_stays() {
    let rig = Rig::new();
    let up = rig.up().await;
    assert_eq!(protection(&up).await.scrub, None);
    let begun = job(&up, StartScrub).await;
    assert_eq!(refused(&up, StartScrub).await.0, Kind::Conflict);
    tokio::task::yield_now().await;
    rig.clock.fetch_add(5, Ordering::SeqCst);
    up.array.tick().await;
    let ended = job(&up, ShowJob { id: begun.id }).await;
    assert_eq!((ended.state, ended.progress), (JobState::Done, 1.0));
    assert_eq!(ended.message.as_deref(), Some("nothing was wrong"));
    let scrub = protection(&up).await.scrub.unwrap();
    assert_eq!(scrub.ended, Some(scrub.started + 5));
    assert_eq!(kinds(&up).await[..2], ["scrub.finished", "scrub.started"]);
    up.down().await;
    let up = rig.up().await;
    assert_eq!(protection(&up).await.scrub, Some(scrub));
    assert!(jobs(&up).await.is_empty());
}

#[tokio::test]
async fn a_scrub_goes_on_after_a_restart() {
    let rig = Rig::new();
    let up = rig.up().await;
    job(&up, StartScrub).await;
    // It has not run yet.
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(jobs(&up).await[0].kind, JobKind::Scrub);
    tokio::task::yield_now().await;
    up.array.tick().await;
    assert_eq!(jobs(&up).await[0].state, JobState::Done);
    assert!(protection(&up).await.scrub.unwrap().ended.is_some());
}

const WEEK: u64 = 7 * 86_400;

async fn scrub_every(up: &Up, seconds: u64) -> Result<Settings, array::Error> {
    let change = SettingsChange { scrub_every_seconds: Some(seconds), ..SettingsChange::default() };
    up.perform(ChangeSettings { change }).await
}

#[tokio::test]
async fn a_scrub_begins_by_itself_a_week_after_the_last_one() {
    let rig = Rig::new();
    let up = rig.up().await;
    let made = rig.clock.load(Ordering::SeqCst);
    up.array.tick().await;
    assert_eq!((protection(&up).await.scrub, protection(&up).await.next_scrub), (None, Some(made + WEEK)));
    rig.clock.store(made + WEEK - 1, Ordering::SeqCst);
    up.down().await;
    let up = rig.up().await;
    up.array.tick().await;
    assert_eq!(protection(&up).await.scrub, None, "the array was made before the restart, and not with it");
    rig.clock.store(made + WEEK, Ordering::SeqCst);
    up.array.tick().await;
    let begun = protection(&up).await;
    let scrub = begun.scrub.unwrap();
    assert_eq!((scrub.user.as_str(), scrub.ended, begun.next_scrub), ("array", None, None));
    tokio::task::yield_now().await;
    rig.clock.fetch_add(60, Ordering::SeqCst);
    up.array.tick().await;
    let ended = protection(&up).await;
    assert_eq!(ended.scrub.unwrap().ended, Some(made + WEEK + 60));
    assert_eq!(ended.next_scrub, Some(made + WEEK + 60 + WEEK));
    up.array.tick().await;
    assert_eq!(jobs(&up).await.len(), 1, "the next one has its time");
}

#[tokio::test]
async fn how_often_is_set_and_never_is_never() {
    let rig = Rig::new();
    let up = rig.up().await;
    for wrong in [1, 3599, 367 * 86_400, u64::MAX] {
        assert_eq!(scrub_every(&up, wrong).await.unwrap_err().kind, Kind::Invalid, "{wrong}");
    }
    scrub_every(&up, 0).await.unwrap();
    rig.clock.fetch_add(1000 * 86_400, Ordering::SeqCst);
    up.array.tick().await;
    assert_eq!((protection(&up).await.scrub, protection(&up).await.next_scrub), (None, None));
    let settings = scrub_every(&up, 3600).await.unwrap();
    assert_eq!(settings.scrub_every_seconds, 3600);
    up.array.tick().await;
    assert!(protection(&up).await.scrub.is_some());
}

#[tokio::test]
async fn what_a_scrub_found_is_an_alert_until_one_finds_nothing() {
    let rig = Rig::new();
    let up = rig.up().await;
    let (name, group) = ("db1".into(), None);
    let made = up
        .perform(CreateVolume { name, bytes: 1 << 20, block_bytes: 4096, group, ..CreateVolume::default() })
        .await;
    let volume = made.unwrap();
    // What can't be compressed is on the drives as it is.
    let noise: Vec<u8> =
        (0..256 << 10).map(|at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29) as u8).collect();
    let data = block::Data::from(bytes::Bytes::from(noise.clone()));
    up.engine.volume(volume.object.id).unwrap().execute(Op::Write { lba: 0, data }).await.unwrap();
    up.down().await;
    let needles: Vec<&[u8]> = noise.chunks(4096).map(|block| &block[100..132]).collect();
    assert!(rig.spoil(1, &needles) > 0, "there is something to spoil");
    let up = rig.up().await;
    for expected in [true, false] {
        job(&up, StartScrub).await;
        tokio::task::yield_now().await;
        while protection(&up).await.scrub.unwrap().ended.is_none() {
            up.array.tick().await;
            tokio::task::yield_now().await;
        }
        rig.clock.fetch_add(10, Ordering::SeqCst);
        up.array.tick().await;
        let alerts = up.perform(ListAlerts).await.unwrap();
        let open = |kind: &str| alerts.iter().any(|it| it.kind == kind && it.closed.is_none());
        assert_eq!(open("scrub.found"), expected, "{alerts:?}");
        assert!(open("drive.checksum-errors"), "{alerts:?}");
    }
    assert!(up.shelf.status().repaired_pages > 0);
}

#[tokio::test]
async fn what_drives_tell_of_themselves_is_asked_now_and_then_and_is_an_alert_when_it_is_bad() {
    let rig = Rig::new();
    let report = |path: &str, health| rig.machine.health.lock().unwrap().insert(path.to_owned(), health);
    report("drive1", Health { verdict: Verdict::Passed, temperature_celsius: Some(31), ..Health::default() });
    let up = rig.up().await;
    let look = async |up: &Up| {
        up.array.tick().await;
        tokio::task::yield_now().await;
        rig.clock.fetch_add(5, Ordering::SeqCst);
        up.array.tick().await;
        let drives = up.perform(ListDrives).await.unwrap();
        let alerts = up.perform(ListAlerts).await.unwrap();
        let open = alerts.into_iter().filter(|it| it.closed.is_none());
        (drives, open.map(|it| it.kind).collect::<Vec<_>>())
    };
    let (drives, alerts) = look(&up).await;
    assert_eq!(drives[1].health.temperature_celsius, Some(31));
    assert_eq!((&drives[0].health, alerts.len()), (&Health::default(), 0));
    report("drive1", Health { verdict: Verdict::Failing, used_percent: Some(95), ..Health::default() });
    assert!(look(&up).await.1.is_empty(), "it is not asked every second");
    rig.clock.fetch_add(600, Ordering::SeqCst);
    let (drives, mut alerts) = look(&up).await;
    alerts.sort();
    assert_eq!(
        (drives[1].health.verdict, alerts.join(" ")),
        (Verdict::Failing, "drive.failing drive.worn".into())
    );
    report("drive1", Health { verdict: Verdict::Passed, ..Health::default() });
    rig.clock.fetch_add(600, Ordering::SeqCst);
    assert!(look(&up).await.1.is_empty(), "it is over");
}

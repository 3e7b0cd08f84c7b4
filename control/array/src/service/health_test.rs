use super::*;

fn drive(slot: usize, state: DriveState) -> DriveStatus {
    DriveStatus {
        slot,
        name: Some(format!("/dev/nvme{slot}n1")),
        drive: slot as u128,
        bytes: 1 << 30,
        used_bytes: 0,
        state,
        journal: false,
        read_bytes: 0,
        written_bytes: 0,
        read_errors: 0,
        slow_reads: 0,
        bad_pages: 0,
        slow: false,
        lags: false,
        reduces_to: None,
    }
}

fn found(state: DriveState, health: Health) -> Vec<(String, Severity)> {
    let drive = drive(3, state);
    let found = of_health([(&drive, health)].into_iter());
    found.into_iter().map(|(key, it)| (key, it.severity)).collect()
}

#[test]
fn a_drive_that_fails_or_is_worn_is_found() {
    let worn = |percent| Health { used_percent: Some(percent), ..Health::default() };
    let failing = Health { verdict: Verdict::Failing, ..Health::default() };
    let key = |kind: &str| format!("{kind}/{:032x}", 3);
    assert!(found(DriveState::Online, Health::default()).is_empty(), "what is not known is no alarm");
    assert!(found(DriveState::Online, worn(89)).is_empty());
    assert_eq!(found(DriveState::Online, worn(90)), [(key("drive.worn"), Severity::Warning)]);
    assert_eq!(found(DriveState::Evacuating, worn(100)), [(key("drive.worn"), Severity::Critical)]);
    assert_eq!(found(DriveState::Online, failing.clone()), [(key("drive.failing"), Severity::Critical)]);
    assert!(found(DriveState::Failed, failing).is_empty(), "it is known to be out");
}

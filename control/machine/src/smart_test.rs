use super::*;

const NVME: &str = include_str!("smart/nvme.json");
const SATA: &str = include_str!("smart/sata.json");
const SAS: &str = include_str!("smart/sas.json");
const UNKNOWN: &str = include_str!("smart/unknown.json");

#[test]
fn an_nvme_drive_is_read_by_its_health_log() {
    let health = read(NVME.as_bytes());
    let expected = Health {
        model: Some("EXAMPLE MZX7L33T8".into()),
        serial: Some("S0000000000001".into()),
        firmware: Some("GDC7302Q".into()),
        verdict: Verdict::Passed,
        temperature_celsius: Some(34),
        used_percent: Some(7),
        spare_percent: Some(98),
        power_on_hours: Some(15_012),
        media_errors: Some(2),
        lifetime_written_bytes: Some(27_054_698 * 512_000),
        lifetime_read_bytes: Some(2_430_296 * 512_000),
    };
    assert_eq!(health, expected);
}

#[test]
fn a_sata_drive_is_read_by_its_statistics() {
    let health = read(SATA.as_bytes());
    assert_eq!(
        (health.verdict, health.used_percent, health.temperature_celsius),
        (Verdict::Failing, Some(93), Some(47))
    );
    assert_eq!((health.power_on_hours, health.media_errors), (Some(21_213), Some(11)));
    assert_eq!(health.lifetime_written_bytes, Some(8_486_453_248 * 512));
    assert_eq!((health.lifetime_read_bytes, health.spare_percent), (Some(37_592_301_568 * 512), None));
}

#[test]
fn a_sata_drive_without_statistics_is_read_by_its_attributes() {
    let mut all: Value = serde_json::from_str(SATA).unwrap();
    all.as_object_mut().unwrap().remove("ata_device_statistics");
    all["endurance_used"] = serde_json::json!({ "current_percent": 12 });
    let health = read(all.to_string().as_bytes());
    assert_eq!(
        (health.media_errors, health.used_percent, health.lifetime_written_bytes),
        (Some(9), Some(12), None)
    );
}

#[test]
fn a_statistic_that_does_not_count_is_left_out() {
    let all: Value = serde_json::from_str(SATA).unwrap();
    assert_eq!(statistic(&all, "Current Temperature"), Some(47));
    assert_eq!(statistic(&all, "Average Short Term Temperature"), None);
    assert_eq!(statistic(&all, "Something else"), None);
}

#[test]
fn a_sas_drive_is_read_by_its_log_pages() {
    let health = read(SAS.as_bytes());
    assert_eq!(health.model.as_deref(), Some("EXAMPLE PM1643a"));
    assert_eq!((health.firmware.as_deref(), health.serial.as_deref()), (Some("B027"), Some("S00000000001")));
    assert_eq!(
        (health.verdict, health.used_percent, health.media_errors),
        (Verdict::Passed, Some(3), Some(3))
    );
    assert_eq!((health.temperature_celsius, health.power_on_hours), (Some(32), Some(12_437)));
    assert_eq!(health.lifetime_written_bytes, Some(56_643_667_000_000));
    assert_eq!(health.lifetime_read_bytes, Some(1_521_086_436_000_000));
}

#[test]
fn what_says_nothing_is_not_known() {
    for text in [UNKNOWN, "", "{", "[]", "null", "not json"] {
        assert_eq!(read(text.as_bytes()), Health::default(), "{text}");
    }
    let strange = r#"{"smart_status":{"passed":"yes"},"scsi_error_counter_log":{"write":{"gigabytes_processed":"-1"}}}"#;
    assert_eq!(read(strange.as_bytes()).lifetime_written_bytes, None);
}

/// A program that writes its number to a file, and then waits forever.
fn hanging(folder: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("hanging");
    std::fs::write(&path, "#!/bin/sh\necho $$ > \"$3\"\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_and_one_that_is_not_there_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let (program, noted) = (hanging(folder.path()), folder.path().join("pid"));
    let to = noted.to_str().unwrap();
    // As long as the program needs to begin.
    let mut limit = Duration::from_millis(200);
    while !noted.exists() {
        let ended = run(&program, to, limit).await;
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
        limit *= 2;
    }
    let number = std::fs::read_to_string(&noted).unwrap();
    let gone = || {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", number.trim())).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    };
    while !gone() {
        tokio::task::yield_now().await;
    }
    let none = run(&folder.path().join("none"), to, limit).await;
    assert_eq!(none.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_file_is_not_asked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(health(file.path().to_str().unwrap()).await, Health::default());
    assert_eq!(health("/dev/there-is-none").await, Health::default());
}

#[tokio::test]
async fn the_service_is_asked_where_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("smart.sock");
    let none = ask(&socket, "/dev/x", TIMEOUT).await.unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let serve = async {
        for answer in [NVME, ""] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut path = String::new();
            stream.read_to_string(&mut path).await.unwrap();
            assert_eq!(path, "/dev/x");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    };
    let asking = async {
        let text = ask(&socket, "/dev/x", TIMEOUT).await.unwrap();
        assert_eq!(read(&text), read(NVME.as_bytes()));
        assert!(ask(&socket, "/dev/x", TIMEOUT).await.unwrap_err().to_string().contains("refused"));
    };
    tokio::join!(serve, asking);
}

#[test]
fn the_service_takes_block_devices_alone() {
    for (path, reason) in [
        ("/etc/passwd", "not below /dev"),
        ("dev/sda", "not below /dev"),
        ("/dev/../etc/passwd", "no block device"),
        ("/dev/null", "no block device"),
        ("/dev/none\n/dev/null", "can't find"),
        ("--scan", "not below /dev"),
        ("", "not below /dev"),
    ] {
        let said = drive(Path::new(path)).unwrap_err().to_string();
        assert!(said.contains(reason), "{path}: {said}");
    }
}

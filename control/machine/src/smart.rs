//! Drive health (SMART) by `smartctl` of smartmontools. If that is not installed or takes too long, or the drive is a file,
//! health is unknown, which is not an error.
//!
//! smartctl sends commands of its own to drives, which takes privileges that an installed `ashlard` does not have. There the
//! service `ashlar-smart` has them: it runs this program as [`help`] for each connection to its socket.

use anyhow::{Context, Result, ensure};
use array::{Health, Verdict};
use serde_json::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::timeout;

/// The program by PATH, and its path on Debian.
const PROGRAMS: [&str; 2] = ["smartctl", "/usr/sbin/smartctl"];
/// Time-out, after which it is killed.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The socket of the service `ashlar-smart`.
const HELPER: &str = "/run/ashlar-smart.sock";
/// Maximum length of a path that the service takes (PATH_MAX).
const MAX_PATH_BYTES: u64 = 4096;
/// NVMe data unit in bytes (NVM Express Base Specification, SMART / Health Information).
const DATA_UNIT: u64 = 512_000;

/// Reads the health of a drive.
pub async fn health(path: &str) -> Health {
    let is_device = std::fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
    if !is_device {
        return Health::default();
    }
    let answer = match ask(Path::new(HELPER), path, TIMEOUT).await {
        Err(error) if error.kind() == ErrorKind::NotFound => run_any(path).await,
        answer => answer,
    };
    match answer {
        Ok(text) => read(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => Health::default(),
        Err(error) => {
            tracing::warn!(path, %error, "the health of the drive can't be read");
            Health::default()
        }
    }
}

/// The output of smartctl by the service with that socket.
///
/// # Errors
/// [`ErrorKind::NotFound`] when there is no such service.
async fn ask(socket: &Path, path: &str, limit: Duration) -> io::Result<Vec<u8>> {
    let exchange = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(path.as_bytes()).await?;
        stream.shutdown().await?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await?;
        io::Result::Ok(text)
    };
    let text = tokio::time::timeout(limit, exchange).await;
    let text = text.map_err(|_| io::Error::new(ErrorKind::TimedOut, "ashlar-smart did not respond"))??;
    match text.is_empty() {
        true => Err(io::Error::other("ashlar-smart refused: see its log (journalctl -u 'ashlar-smart@*')")),
        false => Ok(text),
    }
}

/// The service: reads the path of a drive from standard input, and prints the output of smartctl for it.
///
/// # Errors
/// If the path is none of a drive, or there is no smartctl.
pub fn help() -> Result<()> {
    let mut bytes = Vec::new();
    io::stdin().take(MAX_PATH_BYTES).read_to_end(&mut bytes)?;
    let path = drive(Path::new(std::ffi::OsStr::from_bytes(&bytes)))?;
    let path = path.to_str().context("the path is not text")?;
    let text = crate::threads::management()?.block_on(run_any(path)).context("smartctl can't be run")?;
    Ok(io::stdout().write_all(&text)?)
}

/// The block device at a path below `/dev`; the caller may be anybody who reached the socket.
fn drive(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    ensure!(path.starts_with("/dev"), "{shown:?} is not below /dev");
    let real = path.canonicalize().with_context(|| format!("can't find {shown:?}"))?;
    let about = std::fs::metadata(&real).with_context(|| format!("can't look at {shown:?}"))?;
    ensure!(real.starts_with("/dev") && about.file_type().is_block_device(), "{shown:?} is no block device");
    Ok(real)
}

/// The output of the first program that there is.
async fn run_any(path: &str) -> io::Result<Vec<u8>> {
    for program in PROGRAMS {
        match run(Path::new(program), path, TIMEOUT).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            answer => return answer,
        }
    }
    Err(ErrorKind::NotFound.into())
}

/// The output of smartctl for a drive, regardless of its exit code, which also reports the drive's condition.
///
/// # Errors
/// [`ErrorKind::NotFound`] when there is no such program, [`ErrorKind::TimedOut`] when it took too long and was killed.
async fn run(program: &Path, path: &str, limit: Duration) -> io::Result<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(["--json", "--xall", path]).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    match timeout(limit, command.output()).await {
        Ok(output) => Ok(output?.stdout),
        Err(_) => Err(io::Error::new(ErrorKind::TimedOut, "smartctl timed out and was killed")),
    }
}

/// Parses the JSON of smartctl. ATA, SCSI and NVMe drives report different fields, all of them optional.
fn read(text: &[u8]) -> Health {
    let all: Value = serde_json::from_slice(text).unwrap_or_default();
    let nvme = &all["nvme_smart_health_information_log"];
    let of = |value: &Value| value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let block = all["logical_block_size"].as_u64().unwrap_or(512);
    let units = |name: &str| Some(nvme[name].as_u64()?.saturating_mul(DATA_UNIT));
    let sectors = |name: &str| Some(statistic(&all, name)?.saturating_mul(block));
    Health {
        model: of(&all["model_name"]).or_else(|| of(&all["scsi_model_name"])),
        serial: of(&all["serial_number"]),
        firmware: of(&all["firmware_version"]).or_else(|| of(&all["scsi_revision"])),
        verdict: match all["smart_status"]["passed"].as_bool() {
            Some(true) => Verdict::Passed,
            Some(false) => Verdict::Failing,
            None => Verdict::Unknown,
        },
        temperature_celsius: all["temperature"]["current"].as_i64(),
        used_percent: nvme["percentage_used"]
            .as_u64()
            .or_else(|| all["endurance_used"]["current_percent"].as_u64())
            .or_else(|| statistic(&all, "Percentage Used Endurance Indicator"))
            .or_else(|| all["scsi_percentage_used_endurance_indicator"].as_u64()),
        spare_percent: nvme["available_spare"]
            .as_u64()
            .or_else(|| all["spare_available"]["current_percent"].as_u64()),
        power_on_hours: all["power_on_time"]["hours"].as_u64(),
        media_errors: nvme["media_errors"]
            .as_u64()
            .or_else(|| statistic(&all, "Number of Reported Uncorrectable Errors"))
            .or_else(|| uncorrected(&all))
            .or_else(|| attribute(&all, 187)),
        lifetime_written_bytes: units("data_units_written")
            .or_else(|| sectors("Logical Sectors Written"))
            .or_else(|| processed(&all, "write")),
        lifetime_read_bytes: units("data_units_read")
            .or_else(|| sectors("Logical Sectors Read"))
            .or_else(|| processed(&all, "read")),
    }
}

/// A value of the device statistics of an ATA drive (ACS-5, 9.5), if it is valid.
fn statistic(all: &Value, name: &str) -> Option<u64> {
    let pages = all["ata_device_statistics"]["pages"].as_array()?;
    let mut entries = pages.iter().filter_map(|page| page["table"].as_array()).flatten();
    let found = entries.find(|it| it["name"] == name && it["flags"]["valid"] != false)?;
    found["value"].as_u64()
}

/// The raw value of an attribute of an ATA drive.
fn attribute(all: &Value, id: u64) -> Option<u64> {
    let mut table = all["ata_smart_attributes"]["table"].as_array()?.iter();
    table.find(|it| it["id"] == id)?["raw"]["value"].as_u64()
}

/// Uncorrected errors of a SCSI drive, by its error counters (SPC-5, 7.3.7).
fn uncorrected(all: &Value) -> Option<u64> {
    let counters = all["scsi_error_counter_log"].as_object()?;
    Some(counters.values().filter_map(|it| it["total_uncorrected_errors"].as_u64()).sum())
}

/// Bytes that a SCSI drive has read or written. The counters are in gigabytes, as text with three decimals.
fn processed(all: &Value, operation: &str) -> Option<u64> {
    let text = all["scsi_error_counter_log"][operation]["gigabytes_processed"].as_str()?;
    let gigabytes = text.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0)?;
    Some((gigabytes * 1e9) as u64)
}

#[cfg(test)]
#[path = "smart_test.rs"]
mod tests;

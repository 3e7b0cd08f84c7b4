//! The commands `fibre-channel list` and `fibre-channel remove`: devices that arrays have in the kernel of this
//! machine. They stay when an array ends, so that it finds them after a start; those of an array that does not come
//! back have to be removed.

use super::{CONFIGFS, DEVICES, SYSTEM};
use crate::args::FibreChannelCommand;
use anyhow::{Result, anyhow, bail, ensure};
use export::shown_wwpn;
use std::collections::BTreeMap;
use std::path::Path;
use tcmu::{Configfs, FoundDevice, RemovalError};

/// Performs a command.
///
/// # Errors
/// What could not be done, and what to do.
pub fn run(command: &FibreChannelCommand) -> Result<usize> {
    let found = Configfs::find_devices(CONFIGFS, (Path::new(SYSTEM), Path::new(DEVICES)))?;
    match command {
        FibreChannelCommand::List => {
            lines(&found).iter().for_each(|line| println!("{line}"));
            Ok(0)
        }
        FibreChannelCommand::Remove { serial } => {
            let devices = of_array(&found, serial)?;
            // Each device is open until all are checked.
            crate::limits::raise();
            let names: Vec<_> = devices.iter().map(|device| device.name).collect();
            let removed = Configfs::new(CONFIGFS, serial)
                .remove_unserved(&names, (Path::new(SYSTEM), Path::new(DEVICES)));
            removed.map_err(|error| refusal(&error, serial))?;
            println!("{} devices of array {serial} were removed", devices.len());
            Ok(0)
        }
    }
}

/// The error of a removal that did not succeed, with what to do.
fn refusal(error: &RemovalError, serial: &str) -> anyhow::Error {
    match error {
        RemovalError::Left { .. } => {
            anyhow!(
                "{error}. Correct the reported errors, then repeat `ashlard fibre-channel remove {serial}`"
            )
        }
        error => anyhow!("nothing was removed: {error}"),
    }
}

/// A line for each device, after a heading; that there is none.
fn lines(found: &BTreeMap<String, Vec<FoundDevice>>) -> Vec<String> {
    if found.is_empty() {
        return vec!["no array has devices in the kernel of this machine".to_owned()];
    }
    let mut lines = vec![line(["ARRAY", "INITIATOR", "TARGET PORT", "LUN", "VOLUME", "SERVED"])];
    for (serial, devices) in found {
        for FoundDevice { name, is_served } in devices {
            let (initiator, port) = (shown_wwpn(name.initiator), shown_wwpn(name.port));
            let (lun, volume) = (name.lun.to_string(), format!("{:032x}", name.disk));
            let served = if *is_served { "yes" } else { "no" };
            lines.push(line([serial, &initiator, &port, &lun, &volume, served]));
        }
    }
    lines
}

fn line([array, initiator, port, lun, volume, served]: [&str; 6]) -> String {
    format!("{array:<16}  {initiator:<23}  {port:<23}  {lun:>5}  {volume:<32}  {served}")
}

/// The devices of an array that is not running.
fn of_array<'a>(found: &'a BTreeMap<String, Vec<FoundDevice>>, serial: &str) -> Result<&'a [FoundDevice]> {
    let Some(devices) = found.get(serial) else {
        let known: Vec<_> = found.keys().map(String::as_str).collect();
        match known.is_empty() {
            true => bail!("no array has devices in the kernel of this machine"),
            false => {
                bail!("array {serial} has no devices in the kernel; there are some of {}", known.join(", "))
            }
        }
    };
    let served = devices.iter().filter(|device| device.is_served).count();
    ensure!(
        served == 0,
        "a process serves {served} devices of array {serial}: stop the array first, or disconnect its volumes"
    );
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcmu::DeviceName;

    fn device(lun: u16, is_served: bool) -> FoundDevice {
        let (initiator, port) = (0x2100_0024_FF00_00A1, 0x2100_0024_FF00_0001);
        FoundDevice { name: DeviceName { initiator, port, lun, disk: 0x1F }, is_served }
    }

    #[test]
    fn devices_are_listed_with_what_they_stand_for() {
        let found = BTreeMap::from([("ab12".to_owned(), vec![device(0, false), device(300, true)])]);
        let lines = lines(&found);
        let words: Vec<_> = lines[2].split_whitespace().collect();
        let volume = "0000000000000000000000000000001f";
        assert_eq!(
            words,
            ["ab12", "21:00:00:24:ff:00:00:a1", "21:00:00:24:ff:00:00:01", "300", volume, "yes"]
        );
        assert!(lines[1].ends_with("  no"));
        assert_eq!(super::lines(&BTreeMap::new()).len(), 1);
    }

    #[test]
    fn devices_of_an_array_that_runs_stay_and_a_wrong_number_is_answered_with_those_that_there_are() {
        let found = BTreeMap::from([
            ("ab12".to_owned(), vec![device(0, false)]),
            ("cd34".to_owned(), vec![device(0, false), device(1, true)]),
        ]);
        assert_eq!(of_array(&found, "ab12").unwrap(), [device(0, false)]);
        let error = of_array(&found, "cd34").unwrap_err().to_string();
        assert!(error.contains("stop the array first"), "{error}");
        let error = of_array(&found, "ab1").unwrap_err().to_string();
        assert!(error.contains("ab12, cd34"), "{error}");
        of_array(&BTreeMap::new(), "ab12").unwrap_err();
    }

    #[test]
    fn a_refusal_says_whether_anything_was_removed_and_what_to_do() {
        let name = device(3, false).name;
        let served = refusal(&RemovalError::Served(name), "ab12").to_string();
        assert!(served.starts_with("nothing was removed: a process serves the device of LUN 3"), "{served}");
        let left = vec![(name, tcmu::SetupError::NoTargetCore)];
        let left = refusal(&RemovalError::Left { count: 2, left }, "ab12").to_string();
        assert!(left.starts_with("1 of 2 devices are left: LUN 3 for 21:00:00:24:ff:00:00:a1"), "{left}");
        assert!(left.ends_with("repeat `ashlard fibre-channel remove ab12`"), "{left}");
    }
}

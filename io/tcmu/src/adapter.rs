//! Link state of a target port, from the adapter's driver in `/sys/class/fc_host`. It shows a path that loses frames
//! before hosts report errors.

use std::fs;
use std::path::Path;

/// Value that the kernel shows for a statistic that an adapter does not count.
const NOT_COUNTED: u64 = u64::MAX;

/// Link state of a port, and its errors since the driver was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLink {
    /// State as named by the kernel, such as `Online` or `Linkdown`.
    pub state: String,
    /// Speed as named by the kernel, such as `16 Gbit`; `None` without a link.
    pub speed: Option<String>,
    /// Link failures; `None` if the adapter does not count them, as for the other counters.
    pub link_failures: Option<u64>,
    /// Losses of synchronization.
    pub sync_losses: Option<u64>,
    /// Losses of signal.
    pub signal_losses: Option<u64>,
    /// Frames with a wrong CRC.
    pub invalid_crcs: Option<u64>,
}

impl PortLink {
    /// The link of a port. `system` is `/sys`. `None` if no adapter of this machine has the port, as with the loopback
    /// fabric.
    pub fn read(system: &Path, wwpn: u64) -> Option<Self> {
        let adapters = fs::read_dir(system.join("class/fc_host")).ok()?;
        let name = format!("{wwpn:#018x}");
        let adapter = adapters
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|adapter| text(&adapter.join("port_name")).is_some_and(|known| known == name))?;
        let count = |file: &str| {
            let shown = text(&adapter.join("statistics").join(file))?;
            let count = u64::from_str_radix(shown.trim_start_matches("0x"), 16).ok()?;
            (count != NOT_COUNTED).then_some(count)
        };
        Some(Self {
            state: text(&adapter.join("port_state"))?,
            speed: text(&adapter.join("speed")).filter(|speed| speed != "unknown"),
            link_failures: count("link_failure_count"),
            sync_losses: count("loss_of_sync_count"),
            signal_losses: count("loss_of_signal_count"),
            invalid_crcs: count("invalid_crc_count"),
        })
    }
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(system: &Path, name: &str, files: &[(&str, &str)]) {
        let folder = system.join("class/fc_host").join(name);
        fs::create_dir_all(folder.join("statistics")).unwrap();
        for (file, text) in files {
            fs::write(folder.join(file), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn a_link_is_that_of_the_adapter_with_the_port() {
        let system = tempfile::tempdir().unwrap();
        assert_eq!(PortLink::read(system.path(), 1), None);
        adapter(system.path(), "host1", &[("port_name", "0x21000024ff000001"), ("port_state", "Linkdown")]);
        adapter(
            system.path(),
            "host2",
            &[
                ("port_name", "0x0100000000000002"),
                ("port_state", "Online"),
                ("speed", "16 Gbit"),
                ("statistics/link_failure_count", "0x1f"),
                ("statistics/loss_of_sync_count", "0x0"),
                ("statistics/loss_of_signal_count", "0xffffffffffffffff"),
                ("statistics/invalid_crc_count", "no number"),
            ],
        );
        let found = PortLink::read(system.path(), 0x0100_0000_0000_0002).unwrap();
        let expected = PortLink {
            state: "Online".into(),
            speed: Some("16 Gbit".into()),
            link_failures: Some(31),
            sync_losses: Some(0),
            ..PortLink::default()
        };
        assert_eq!(found, expected);
        assert_eq!(PortLink::read(system.path(), 0x2100_0024_FF00_0001).unwrap().state, "Linkdown");
        assert_eq!(PortLink::read(system.path(), 3), None);
    }
}

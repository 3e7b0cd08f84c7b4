//! What serves hosts over Fibre Channel, as far as the array needs it: the trait [`FibreChannel`], implemented by the process.

use block::DiskId;
use serde::Serialize;
use utoipa::ToSchema;

/// What serves hosts over Fibre Channel.
pub trait FibreChannel: Send + Sync {
    /// The I_T nexuses that have devices now, by initiator port and target port. Nothing without target ports.
    fn nexuses(&self) -> Vec<FibreChannelNexus>;
}

/// An initiator port and a target port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibreChannelNexus {
    /// WWPN of the initiator port, as the array shows WWPNs.
    pub initiator: String,
    /// WWPN of the target port.
    pub target_port: String,
    /// Relative identifier of the target port: the number of its portal.
    pub portal: u16,
    /// What the target port belongs to, in the kernel's name, such as `qla2xxx`.
    pub fabric: String,
    /// The kernel has a session of the initiator.
    pub is_logged_in: bool,
    /// Its devices, by LUN.
    pub devices: Vec<FibreChannelDevice>,
    /// The link of the target port; `None` if it has none, as with the loopback fabric.
    pub link: Option<FibreChannelLink>,
}

/// A device in the kernel: a volume for one initiator port at one target port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibreChannelDevice {
    /// LUN of the volume.
    pub lun: u16,
    /// The volume or snapshot.
    pub disk: DiskId,
    /// The array responds to its commands.
    pub is_served: bool,
    /// Commands since the array serves it.
    pub commands: u64,
    /// Commands that the host aborted, such as those that took longer than it waits.
    pub aborted: u64,
    /// Commands that were answered with TASK SET FULL for want of memory.
    pub refused: u64,
}

/// Link of a target port. Losses are counted from the start of the adapter's driver; `null` if the adapter does not count them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct FibreChannelLink {
    /// State in the words of the kernel, such as `Online` or `Linkdown`.
    pub state: String,
    /// Speed in the words of the kernel; `null` without a link.
    #[schema(example = "16 Gbit")]
    pub speed: Option<String>,
    /// Number of link failures.
    pub link_failures: Option<u64>,
    /// Number of losses of synchronization.
    pub sync_losses: Option<u64>,
    /// Number of losses of signal.
    pub signal_losses: Option<u64>,
    /// Number of frames with a wrong CRC.
    pub invalid_crcs: Option<u64>,
}

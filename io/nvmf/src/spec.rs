//! Tables of the standards: log pages, features, CNS values, properties and limits (NVM Express Base 2.0, NVM Command Set
//! 1.0, NVMe TCP Transport 1.0). What a controller reports and what it accepts both come from here.

/// The well-known name of discovery subsystems (Base 3.1.2.3).
pub(crate) const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// The port that IANA assigned to NVMe over Fabrics discovery: a portal with it serves discovery only.
pub(crate) const DISCOVERY_PORT: u16 = 8009;

/// Longest NQN in bytes (Base 4.5).
pub(crate) const MAX_NQN_BYTES: usize = 223;

/// Entries of a queue: CAP.MQES + 1.
pub(crate) const MAX_QUEUE_ENTRIES: u16 = 1024;
/// Maximum number of entries of an admin queue.
pub(crate) const MAX_ADMIN_ENTRIES: u16 = 128;
/// I/O queues of a controller.
pub(crate) const MAX_IO_QUEUES: u16 = 128;
/// MDTS: data of one command, as a power of two of 4 KiB, and in bytes.
pub(crate) const MDTS: u8 = 8;
pub(crate) const MAX_TRANSFER_BYTES: u32 = 4096 << MDTS;
/// MDTS of a discovery controller, which any host may open: its guarantee covers it.
pub(crate) const DISCOVERY_MDTS: u8 = 3;
/// Asynchronous Event Requests at the same time: AERL + 1.
pub(crate) const MAX_EVENT_REQUESTS: usize = 8;
/// Abort commands at the same time: ACL + 1.
pub(crate) const MAX_ABORTS: usize = 4;
/// NN: the largest namespace identifier, one more than the largest number of a mapping.
pub(crate) const MAX_NSID: u32 = 1 << 14;
/// MNAN: namespaces that a host may see. The log page of asymmetric access must fit in a transfer.
pub const MAX_NAMESPACES: usize = 1024;
const _: () = assert!(16 + 32 + 4 * MAX_NAMESPACES < MAX_TRANSFER_BYTES as usize);

/// KAS: granularity of the keep alive timer, in units of 100 ms.
pub(crate) const KEEP_ALIVE_GRANULARITY: u16 = 10;
/// CRDT1: the delay before a host repeats an interrupted command, in units of 100 ms.
pub(crate) const RETRY_DELAY: u16 = 1;
/// The only ANA group.
pub(crate) const ANA_GROUP: u32 = 1;
/// ANATT: seconds that a transition takes at most.
pub(crate) const ANA_TRANSITION_SECONDS: u8 = 30;

/// Source ranges of a Copy: MSRC + 1.
pub(crate) const MAX_COPY_RANGES: usize = 128;
/// Bytes that a Copy copies: MCL.
pub(crate) const MAX_COPY_BYTES: u64 = 1 << 30;
/// Blocks of one source range: MSSRL.
pub(crate) const MAX_COPY_RANGE_BLOCKS: u16 = u16::MAX;

/// Version 2.0 (Base 3.1.3.2).
pub(crate) const VERSION: u32 = 0x0002_0000;

/// Properties by their offset (Base figure 35), with their size in bytes.
pub(crate) mod property {
    pub(crate) const CAP: u32 = 0x00;
    pub(crate) const VS: u32 = 0x08;
    pub(crate) const CC: u32 = 0x14;
    pub(crate) const CSTS: u32 = 0x1C;
    pub(crate) const NSSR: u32 = 0x20;
    pub(crate) const CRTO: u32 = 0x68;
}

/// Controller Capabilities (Base figure 36): MQES, contiguous queues, time-out of 15 s, the NVM command set, and CRWMS
/// (the controller waits for its media).
pub(crate) const CAPABILITIES: u64 =
    (MAX_QUEUE_ENTRIES as u64 - 1) | 1 << 16 | READY_TIMEOUT_HALF_SECONDS << 24 | 1 << 37 | 1 << 59;
const READY_TIMEOUT_HALF_SECONDS: u64 = 30;
/// Controller Ready Timeouts (Base figure 61): with media.
pub(crate) const READY_TIMEOUTS: u32 = READY_TIMEOUT_HALF_SECONDS as u32;

/// Bits of Controller Configuration (Base figure 46) and Status (Base figure 47).
pub(crate) mod configuration {
    pub(crate) const ENABLE: u32 = 1;
    pub(crate) const SHUTDOWN: u32 = 3 << 14;
    /// Fields that are fixed when the controller is enabled: command set, page size, arbitration, entry sizes.
    pub(crate) const COMMAND_SET: u32 = 7 << 4;
    pub(crate) const PAGE_SIZE: u32 = 0xF << 7;
    pub(crate) const READY: u32 = 1;
    pub(crate) const FATAL: u32 = 1 << 1;
    pub(crate) const SHUTDOWN_COMPLETE: u32 = 2 << 2;
}

/// Bits of the Asynchronous Event Configuration feature, which OAES reports (Base figures 275 and 277).
pub(crate) mod event_notice {
    pub(crate) const NAMESPACE: u32 = 1 << 8;
    pub(crate) const ANA: u32 = 1 << 11;
    pub(crate) const DISCOVERY: u32 = 1 << 31;
}

/// Values of CNS (Base figure 273).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cns {
    Namespace = 0x00,
    Controller = 0x01,
    ActiveNamespaces = 0x02,
    NamespaceDescriptors = 0x03,
    CommandSetNamespace = 0x05,
    CommandSetController = 0x06,
    CommandSetActiveNamespaces = 0x07,
    IndependentNamespace = 0x08,
    AllocatedNamespaces = 0x10,
    AllocatedNamespace = 0x11,
    NamespaceControllers = 0x12,
    SubsystemControllers = 0x13,
    CommandSets = 0x1C,
}

impl Cns {
    const ALL: [Cns; 13] = [
        Cns::Namespace,
        Cns::Controller,
        Cns::ActiveNamespaces,
        Cns::NamespaceDescriptors,
        Cns::CommandSetNamespace,
        Cns::CommandSetController,
        Cns::CommandSetActiveNamespaces,
        Cns::IndependentNamespace,
        Cns::AllocatedNamespaces,
        Cns::AllocatedNamespace,
        Cns::NamespaceControllers,
        Cns::SubsystemControllers,
        Cns::CommandSets,
    ];

    pub(crate) fn from_code(code: u8) -> Option<Cns> {
        Self::ALL.into_iter().find(|cns| *cns as u8 == code)
    }
}

/// Log pages (Base figure 202).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LogPage {
    SupportedPages = 0x00,
    Errors = 0x01,
    Health = 0x02,
    Firmware = 0x03,
    ChangedNamespaces = 0x04,
    CommandEffects = 0x05,
    NamespaceAccess = 0x0C,
    Discovery = 0x70,
    ReservationNotification = 0x80,
}

impl LogPage {
    /// Log pages of an I/O controller, or of a discovery controller.
    pub(crate) fn supported(discovery: bool) -> &'static [LogPage] {
        match discovery {
            true => &[LogPage::SupportedPages, LogPage::Errors, LogPage::Discovery],
            false => &[
                LogPage::SupportedPages,
                LogPage::Errors,
                LogPage::Health,
                LogPage::Firmware,
                LogPage::ChangedNamespaces,
                LogPage::CommandEffects,
                LogPage::NamespaceAccess,
                LogPage::ReservationNotification,
            ],
        }
    }

    pub(crate) fn from_code(code: u8, discovery: bool) -> Option<LogPage> {
        Self::supported(discovery).iter().find(|page| **page as u8 == code).copied()
    }
}

/// Features (Base figure 276).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Feature {
    Arbitration = 0x01,
    PowerManagement = 0x02,
    TemperatureThreshold = 0x04,
    ErrorRecovery = 0x05,
    VolatileWriteCache = 0x06,
    NumberOfQueues = 0x07,
    WriteAtomicityNormal = 0x0A,
    AsynchronousEvents = 0x0B,
    KeepAliveTimer = 0x0F,
    HostIdentifier = 0x81,
    ReservationNotificationMask = 0x82,
    ReservationPersistence = 0x83,
}

/// Properties of a feature.
pub(crate) struct FeatureRow {
    pub(crate) feature: Feature,
    pub(crate) name: &'static str,
    /// Clause of Base 2.0.
    pub(crate) clause: &'static str,
    /// The bits of dword 11 that may be set; zero if the feature can't be changed.
    pub(crate) changeable: u32,
    pub(crate) default: u32,
    /// Whether each namespace has a value of its own.
    pub(crate) namespace: bool,
    /// Whether discovery controllers have the feature.
    pub(crate) discovery: bool,
}

const fn feature(
    feature: Feature,
    name: &'static str,
    clause: &'static str,
    changeable: u32,
    default: u32,
) -> FeatureRow {
    FeatureRow { feature, name, clause, changeable, default, namespace: false, discovery: false }
}

impl FeatureRow {
    const fn of_namespaces(self) -> FeatureRow {
        FeatureRow { namespace: true, ..self }
    }

    const fn of_discovery(self) -> FeatureRow {
        FeatureRow { discovery: true, ..self }
    }
}

/// The features. Values that only describe a drive (power, temperature, arbitration) are stored for the host and have
/// no effect.
pub(crate) const FEATURES: &[FeatureRow] = &[
    feature(Feature::Arbitration, "Arbitration", "5.27.1.1", 0xFFFF_FF07, 0),
    feature(Feature::PowerManagement, "Power Management", "5.27.1.2", 0, 0),
    feature(Feature::TemperatureThreshold, "Temperature Threshold", "5.27.1.3", 0x003F_FFFF, 0xFFFF),
    feature(Feature::ErrorRecovery, "Error Recovery", "NVM 4.1.3.2", 0x0000_FFFF, 0).of_namespaces(),
    feature(Feature::VolatileWriteCache, "Volatile Write Cache", "5.27.1.4", 0, 0),
    feature(Feature::NumberOfQueues, "Number of Queues", "5.27.1.5", u32::MAX, 0),
    feature(Feature::WriteAtomicityNormal, "Write Atomicity Normal", "NVM 4.1.3.3", 1, 0),
    feature(
        Feature::AsynchronousEvents,
        "Asynchronous Event Configuration",
        "5.27.1.8",
        event_notice::NAMESPACE | event_notice::ANA | event_notice::DISCOVERY | 0xFF,
        0,
    )
    .of_discovery(),
    feature(Feature::KeepAliveTimer, "Keep Alive Timer", "5.27.1.12", u32::MAX, 0).of_discovery(),
    feature(Feature::HostIdentifier, "Host Identifier", "5.27.1.25", 0, 0),
    feature(Feature::ReservationNotificationMask, "Reservation Notification Mask", "5.27.1.26", 0b1110, 0)
        .of_namespaces(),
    feature(Feature::ReservationPersistence, "Reservation Persistence", "5.27.1.27", 1, 0).of_namespaces(),
];

/// The row of a feature, if the controller has it.
pub(crate) fn find_feature(code: u8, discovery: bool) -> Option<&'static FeatureRow> {
    FEATURES.iter().find(|row| row.feature as u8 == code && (row.discovery || !discovery))
}

/// The canonical form of an NQN (Base 4.5): names are compared byte by byte. `None` if `text` is not one.
pub fn nqn(text: &str) -> Option<String> {
    let fits = text.len() <= MAX_NQN_BYTES && text.strip_prefix("nqn.").is_some_and(|rest| !rest.is_empty());
    (fits && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.to_owned())
}

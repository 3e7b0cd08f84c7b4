//! Identify (NVM Express Base 2.0 clause 5.17, NVM Command Set 4.1.5): every data structure is 4096 bytes.

use crate::controller::Controller;
use crate::encoding::{Structure, list_of_u32};
use crate::path::Path;
use crate::spec::{
    ANA_GROUP, ANA_TRANSITION_SECONDS, Cns, KEEP_ALIVE_GRANULARITY, MAX_ABORTS, MAX_COPY_BYTES,
    MAX_COPY_RANGE_BLOCKS, MAX_COPY_RANGES, MAX_EVENT_REQUESTS, MAX_NAMESPACES, MAX_NSID, MAX_QUEUE_ENTRIES,
    MAX_TRANSFER_BYTES, RETRY_DELAY, VERSION, event_notice,
};
use crate::sqe::{ALL_NAMESPACES, Outcome, SQE_BYTES, Sqe};
use crate::status::Status;
use block::DiskId;
use export::PROVISIONING_BLOCK_BYTES;

/// Bytes of every data structure.
const STRUCTURE_BYTES: usize = 4096;
/// Company identifier in the names of the array, the same as in SCSI names.
const COMPANY: [u8; 3] = [0x02, 0xA5, 0x1A];
/// The NVM command set.
const NVM_COMMAND_SET: u8 = 0;
/// Smallest block length: atomic writes of the controller are counted in blocks of any namespace.
const LARGEST_BLOCK_BYTES: u32 = 4096;

/// NGUID of a volume (Base 5.17.2.3): EUI-64 based; the upper half is the extension. It is the same on every path.
pub(crate) fn nguid(id: DiskId) -> [u8; 16] {
    let id = id.0.to_be_bytes();
    let mut out = [0; 16];
    out[..8].copy_from_slice(&id[..8]);
    out[8..11].copy_from_slice(&COMPANY);
    out[11..].copy_from_slice(&id[11..]);
    out
}

/// UUID of a volume: its identity in the form of RFC 9562 version 8.
pub(crate) fn uuid(id: DiskId) -> [u8; 16] {
    let mut out = id.0.to_be_bytes();
    out[6] = 0x80 | out[6] & 0x0F;
    out[8] = 0x80 | out[8] & 0x3F;
    out
}

/// Identify
pub(crate) fn identify(controller: &Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let (code, nsid) = (sqe.dword(10) as u8, sqe.nsid());
    let command_set = (sqe.dword(11) >> 24) as u8;
    let cns = Cns::from_code(code).ok_or(Status::INVALID_FIELD)?;
    if controller.discovery && cns != Cns::Controller {
        return Err(Status::INVALID_FIELD);
    }
    let uses_command_set =
        matches!(cns, Cns::CommandSetNamespace | Cns::CommandSetController | Cns::CommandSetActiveNamespaces);
    if uses_command_set && command_set != NVM_COMMAND_SET {
        return Err(Status::INVALID_FIELD);
    }
    let zeros = || vec![0; STRUCTURE_BYTES];
    let structure = match cns {
        Cns::Controller if controller.discovery => discovery_controller(controller),
        Cns::Controller => io_controller(controller),
        Cns::ActiveNamespaces | Cns::CommandSetActiveNamespaces | Cns::AllocatedNamespaces => {
            if nsid >= ALL_NAMESPACES - 1 {
                return Err(Status::INVALID_NAMESPACE);
            }
            namespaces_after(controller, nsid)
        }
        Cns::Namespace | Cns::AllocatedNamespace => {
            let path = of_namespace(controller, nsid)?.inspect(|path| path.set_identified());
            path.map_or_else(zeros, |path| namespace(&path))
        }
        Cns::CommandSetNamespace => of_namespace(controller, nsid)?.map_or_else(zeros, |_| zeros()),
        Cns::IndependentNamespace => {
            of_namespace(controller, nsid)?.map_or_else(zeros, |path| independent_namespace(&path))
        }
        Cns::NamespaceDescriptors => {
            let path = of_namespace(controller, nsid)?.ok_or(Status::INVALID_NAMESPACE)?;
            path.set_identified();
            descriptors(path.volume.id())
        }
        // Verify, Write Zeroes and Dataset Management have no limits below those of their fields.
        Cns::CommandSetController => zeros(),
        Cns::NamespaceControllers => {
            of_namespace(controller, nsid)?.ok_or(Status::INVALID_FIELD)?;
            controllers(controller, sqe)
        }
        Cns::SubsystemControllers => controllers(controller, sqe),
        // The vector of command set combinations: one, with the NVM command set.
        Cns::CommandSets => Structure::new(STRUCTURE_BYTES).u64(0, 1).into_vec(),
    };
    Ok(Outcome::data(structure))
}

/// The list of the namespaces with identifiers above `nsid`, which always fits in the structure. It shows the host
/// which identifiers are free.
fn namespaces_after(controller: &Controller, nsid: u32) -> Vec<u8> {
    const _: () = assert!(MAX_NAMESPACES * 4 <= STRUCTURE_BYTES);
    if nsid == 0 {
        controller.subsystem.begin_inventory(controller, |nsid| controller.events.is_unread(nsid));
    }
    let view = controller.view();
    let withheld = controller.namespaces.listed(&view, nsid, |nsid| controller.events.is_unread(nsid));
    if !withheld.is_empty() {
        controller.events.namespaces_changed(withheld);
    }
    list_of_u32(view.keys().copied().filter(|known| *known > nsid), STRUCTURE_BYTES)
}

/// The namespace with an identifier; `None` if the identifier is valid but the host does not see the namespace.
fn of_namespace(controller: &Controller, nsid: u32) -> Result<Option<std::sync::Arc<Path>>, Status> {
    match nsid {
        1..=MAX_NSID => Ok(controller.path(nsid)),
        _ => Err(Status::INVALID_NAMESPACE),
    }
}

/// The controllers of the host in ascending order, starting with the identifier that the command names.
fn controllers(controller: &Controller, sqe: &Sqe) -> Vec<u8> {
    let from = (sqe.dword(10) >> 16) as u16;
    let ids = controller.subsystem.controller_ids(&controller.nqn).into_iter().filter(|id| *id >= from);
    let ids: Vec<u16> = ids.take(STRUCTURE_BYTES / 2 - 1).collect();
    let mut out = (ids.len() as u16).to_le_bytes().to_vec();
    out.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
    out.resize(STRUCTURE_BYTES, 0);
    out
}

/// Fields that both types of controllers have (Base figure 275).
fn any_controller(controller: &Controller) -> Structure {
    let identity = &controller.subsystem.identity;
    Structure::new(STRUCTURE_BYTES)
        .text(4, 20, &identity.serial)
        .text(24, 40, &identity.model)
        .text(64, 8, &identity.revision)
        .u8(77, controller.mdts())
        .u16(78, controller.id)
        .u32(80, VERSION)
        .u16(128, RETRY_DELAY) // CRDT1
        .u8(259, MAX_EVENT_REQUESTS as u8 - 1) // AERL
        .u8(261, 1 << 2) // LPA: the extended form of Get Log Page
        .u16(320, KEEP_ALIVE_GRANULARITY)
        .u16(514, MAX_QUEUE_ENTRIES) // MAXCMD
        .u32(536, 1 | 1 << 20) // SGLS: SGLs, and offsets in capsules
}

fn io_controller(controller: &Controller) -> Vec<u8> {
    let identity = &controller.subsystem.identity;
    let atomic = (MAX_TRANSFER_BYTES / LARGEST_BLOCK_BYTES - 1) as u16;
    any_controller(controller)
        .bytes(73, &[COMPANY[2], COMPANY[1], COMPANY[0]]) // IEEE, least significant byte first
        .u8(76, 1 | 1 << 1 | 1 << 3) // CMIC: ports, controllers, ANA
        .u32(92, event_notice::NAMESPACE | event_notice::ANA) // OAES
        .u32(96, 1 | 1 << 6) // CTRATT: 128-bit host identifiers, traffic-based keep alive
        .u8(111, 1) // CNTRLTYPE: I/O
        .u8(258, MAX_ABORTS as u8 - 1) // ACL
        .u8(260, 1 | 1 << 1) // FRMW: one slot, read-only
        .u8(261, 1 << 1 | 1 << 2) // LPA: command effects too
        .u8(342, ANA_TRANSITION_SECONDS)
        .u8(343, 1 | 1 << 4 | 1 << 6) // ANACAP: optimized, change; groups of namespaces do not change
        .u32(344, ANA_GROUP) // ANAGRPMAX
        .u32(348, 1) // NANAGRPID
        .u8(512, 0x66) // SQES, CQES
        .u8(513, 0x44)
        .u32(516, MAX_NSID) // NN
        .u16(520, 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8) // ONCS
        .u16(522, 1) // FUSES: Compare and Write
        .u8(525, 3 << 1) // VWC: none; Flush may name all namespaces
        .u16(526, atomic) // AWUN, AWUPF
        .u16(528, atomic)
        .u16(532, atomic) // ACWU
        .u16(534, 1) // OCFS: descriptor format 0
        .u32(540, MAX_NAMESPACES as u32)
        .terminated(768, 256, &identity.nqn)
        .u32(1792, ((SQE_BYTES + crate::pdu::MAX_IN_CAPSULE_BYTES) / 16) as u32) // IOCCSZ
        .u32(1796, 1) // IORCSZ
        .u8(1803, 1) // MSDBD
        .into_vec()
}

fn discovery_controller(controller: &Controller) -> Vec<u8> {
    any_controller(controller)
        .u32(92, event_notice::DISCOVERY)
        .u32(96, 1)
        .u8(111, 2) // CNTRLTYPE: discovery
        .terminated(768, 256, crate::spec::DISCOVERY_NQN)
        .into_vec()
}

/// RESCAP (Base figure 276): all types, through a loss of power, and IEKEY as of revision 1.3.
const RESERVATIONS: u8 = 0xFF;
/// NMIC: the namespace may be shared.
const SHARED: u8 = 1;

/// NSFEAT: thin provisioning, atomicity by namespace, identifiers never reused, preferred sizes.
fn features() -> u8 {
    1 | 1 << 1 | 1 << 3 | 1 << 4
}

fn write_protected(path: &Path) -> u8 {
    u8::from(path.is_read_only())
}

/// Identify Namespace of the NVM command set (NVM Command Set figure 97).
fn namespace(path: &Path) -> Vec<u8> {
    let geometry = path.volume.geometry();
    let block_bytes = geometry.block_bytes;
    let mapped = path.volume.disk().space().mapped / u64::from(block_bytes);
    let granularity = ((PROVISIONING_BLOCK_BYTES / block_bytes).max(1) - 1) as u16;
    let atomic = (MAX_TRANSFER_BYTES / block_bytes - 1) as u16;
    Structure::new(STRUCTURE_BYTES)
        .u64(0, geometry.blocks) // NSZE, NCAP, NUSE
        .u64(8, geometry.blocks)
        .u64(16, mapped.min(geometry.blocks))
        .u8(24, features())
        .u8(30, SHARED)
        .u8(31, RESERVATIONS)
        .u8(33, 1 | 1 << 3) // DLFEAT: deallocated blocks read as zeros; Write Zeroes may deallocate
        .u16(34, atomic) // NAWUN, NAWUPF, NACWU
        .u16(36, atomic)
        .u16(38, atomic)
        .u16(64, granularity) // NPWG, NPWA, NPDG, NPDA
        .u16(66, granularity)
        .u16(68, granularity)
        .u16(70, granularity)
        .u16(72, atomic) // NOWS
        .u16(74, MAX_COPY_RANGE_BLOCKS) // MSSRL
        .u32(76, (MAX_COPY_BYTES / u64::from(block_bytes)) as u32) // MCL
        .u8(80, MAX_COPY_RANGES as u8 - 1) // MSRC
        .u32(92, ANA_GROUP)
        .u8(99, write_protected(path))
        .bytes(104, &nguid(path.volume.id()))
        .u32(128, block_bytes.trailing_zeros() << 16) // LBAF 0
        .into_vec()
}

/// Identify Namespace, independent of the command set (Base figure 280).
fn independent_namespace(path: &Path) -> Vec<u8> {
    Structure::new(STRUCTURE_BYTES)
        .u8(0, 1 << 3)
        .u8(1, SHARED)
        .u8(2, RESERVATIONS)
        .u32(4, ANA_GROUP)
        .u8(8, write_protected(path))
        .u8(14, 1) // NSTAT: ready
        .into_vec()
}

/// Namespace identification descriptors (Base figure 277): NGUID, UUID, command set.
fn descriptors(id: DiskId) -> Vec<u8> {
    Structure::new(STRUCTURE_BYTES)
        .bytes(0, &[2, 16])
        .bytes(4, &nguid(id))
        .bytes(20, &[3, 16])
        .bytes(24, &uuid(id))
        .bytes(40, &[4, 1])
        .u8(44, NVM_COMMAND_SET)
        .into_vec()
}

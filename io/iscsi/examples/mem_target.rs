//! An iSCSI target over disks in memory, for trying initiators and for measuring this crate alone.
//!
//! `cargo run --release -p iscsi --example mem_target -- --portal 127.0.0.1:3260 --disks 2`

use block::mem::MemArray;
use block::{Data, Disk, DiskId, Geometry, Op, Pending, Reply, Space};
use bytes::Bytes;
use clap::Parser;
use export::Exports;
use iscsi::{Access, Credentials, Portal, Server, ServerConfig};
use scsi::{Target, TargetIdentity};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use transport::SystemClock;

/// Initiators that may log in by default: those of libiscsi's programs and of QEMU.
const INITIATORS: [&str; 6] = [
    "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test",
    "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test-2",
    "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-inq",
    "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-ls",
    "iqn.2010-11.libiscsi:iscsi-perf",
    "iqn.2008-11.org.linux-kvm",
];

#[derive(Parser)]
struct Options {
    /// Address to listen on; repeat for several portals.
    #[arg(long = "portal", default_value = "127.0.0.1:3260")]
    portals: Vec<SocketAddr>,
    /// The target's name.
    #[arg(long, default_value = "iqn.2026-01.org.ashlar:mem")]
    name: String,
    /// Number of disks, which become LUNs from 0.
    #[arg(long, default_value_t = 1)]
    disks: u16,
    /// Size of each disk in MiB.
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// Logical block length in bytes.
    #[arg(long, default_value_t = 512)]
    block: u32,
    /// Disks that discard writes and read as zeros.
    #[arg(long)]
    null: bool,
    /// Threads that serve connections.
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// Initiators that may log in, besides those of common programs.
    #[arg(long = "initiator")]
    initiators: Vec<String>,
    /// CHAP name and secret that initiators need, as NAME:SECRET.
    #[arg(long)]
    chap: Option<String>,
    /// CHAP name and secret of the target, as NAME:SECRET.
    #[arg(long)]
    mutual: Option<String>,
}

/// A disk that returns zeros and discards writes.
struct NullDisk {
    id: DiskId,
    geometry: Geometry,
    zeros: Bytes,
}

impl Disk for NullDisk {
    fn id(&self) -> DiskId {
        self.id
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn space(&self) -> Space {
        Space::default()
    }

    fn state(&self) -> Bytes {
        Bytes::new()
    }

    fn execute(&self, op: Op) -> Pending {
        match op {
            Op::Read(extent) => {
                let mut left = extent.blocks as usize * self.geometry.block_bytes as usize;
                let mut data = Data::new();
                while left > 0 {
                    let part = left.min(self.zeros.len());
                    data.push(self.zeros.slice(..part));
                    left -= part;
                }
                Pending::ready(Ok(Reply::Data(data)))
            }
            _ => Pending::done(),
        }
    }
}

fn credentials(text: &str) -> Credentials {
    let (name, secret) = text.split_once(':').expect("NAME:SECRET");
    Credentials { name: name.to_owned(), secret: secret.to_owned() }
}

fn main() {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let options = Options::parse();
    let identity = TargetIdentity {
        name: options.name.clone(),
        vendor: "ASHLAR".to_owned(),
        product: "ALL-FLASH ARRAY".to_owned(),
        revision: "0001".to_owned(),
        ports: (options.portals.len() as u16).into(),
    };
    let exports = Exports::new(Arc::new(SystemClock::default()));
    let target = Target::new(identity, exports.clone(), [7; 32]);
    let geometry =
        Geometry { block_bytes: options.block, blocks: (options.mib << 20) / u64::from(options.block) };
    let array = MemArray::new();
    let mut view = BTreeMap::new();
    for lun in 0..options.disks {
        let id = DiskId(u128::from(lun) + 1);
        let disk: Arc<dyn Disk> = match options.null {
            true => Arc::new(NullDisk { id, geometry, zeros: Bytes::from(vec![0; 1 << 20]) }),
            false => Arc::new(array.create(id, geometry)),
        };
        exports.add_volume(disk);
        view.insert(lun, id);
    }
    let access = Access {
        chap: options.chap.as_deref().map(credentials),
        mutual: options.mutual.as_deref().map(credentials),
    };
    let blast = (0..64).map(|index| format!("iqn.2026-01.lab:iblast{index}"));
    let known = INITIATORS.map(str::to_owned).into_iter().chain(options.initiators).chain(blast);
    let table: iscsi::AccessTable = known.map(|name| (name, access.clone())).collect();
    table.keys().for_each(|name| exports.set_mappings(name, view.clone()));

    let server = Server::new(target, ServerConfig::new(options.name), Arc::default());
    server.set_access(table);
    let mut shards = Vec::new();
    for _ in 0..options.shards {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        shards.push(runtime.handle().clone());
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let wanted = (1..).zip(options.portals).map(|(number, address)| Portal::plain(number, address));
        let portals = server.serve(&wanted.collect::<Vec<_>>(), shards).await.expect("portals to listen on");
        let addresses: Vec<_> = portals.iter().map(|portal| portal.address).collect();
        println!("listening on {addresses:?}");
        tokio::signal::ctrl_c().await.expect("a signal handler");
        server.shutdown().await;
    });
}

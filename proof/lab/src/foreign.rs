//! A target that the lab did not start: any vendor's array, by address.

use crate::cdb;
use crate::libiscsi::{Ending, Libiscsi};
use crate::real;
use crate::target::{Login, Shape, Target};
use anyhow::{Context, Result, bail, ensure};
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

const PORT: u16 = 3260;
const NVME_PORT: u16 = 4420;

/// Address: `iscsi://PORTAL[,PORTAL…]/NAME/LUN[,LUN…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    portals: Vec<SocketAddr>,
    iqn: String,
    luns: Vec<u16>,
}

impl FromStr for Foreign {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = "iscsi://PORTAL[,PORTAL…]/NAME/LUN[,LUN…]";
        let parts: Vec<_> = text.strip_prefix("iscsi://").with_context(|| form)?.split('/').collect();
        let [portals, iqn, luns] = parts[..] else { bail!("{form}") };
        let luns = luns.split(',').map(|lun| lun.parse().with_context(|| format!("LUN {lun:?}")));
        let portals: Result<_> = portals.split(',').map(|portal| address(portal, PORT)).collect();
        Ok(Self { portals: portals?, iqn: iqn.to_owned(), luns: luns.collect::<Result<_>>()? })
    }
}

/// Address of a portal; the port is optional.
fn address(portal: &str, port: u16) -> Result<SocketAddr> {
    let addresses = portal.to_socket_addrs().or_else(|_| (portal, port).to_socket_addrs());
    addresses.ok().and_then(|mut it| it.next()).with_context(|| format!("no address: {portal:?}"))
}

/// An NVMe/TCP subsystem: `nvme://PORTAL[,PORTAL…]/NQN/NSID[,NSID…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignNvme {
    portals: Vec<SocketAddr>,
    subsystem: String,
    namespaces: Vec<u32>,
}

impl FromStr for ForeignNvme {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = "nvme://PORTAL[,PORTAL…]/NQN/NSID[,NSID…]";
        let parts: Vec<_> = text.strip_prefix("nvme://").with_context(|| form)?.split('/').collect();
        let [portals, subsystem, ids] = parts[..] else { bail!("{form}") };
        let ids = ids.split(',').map(|id| id.parse().with_context(|| format!("NSID {id:?}")));
        let portals: Result<_> = portals.split(',').map(|portal| address(portal, NVME_PORT)).collect();
        Ok(Self {
            portals: portals?,
            subsystem: subsystem.to_owned(),
            namespaces: ids.collect::<Result<_>>()?,
        })
    }
}

impl ForeignNvme {
    /// Addresses of its controllers.
    pub fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    /// Name of the subsystem.
    pub fn subsystem(&self) -> &str {
        &self.subsystem
    }

    /// Namespaces in the address.
    pub fn namespaces(&self) -> &[u32] {
        &self.namespaces
    }
}

impl Foreign {
    /// LUNs in the address.
    pub fn luns(&self) -> &[u16] {
        &self.luns
    }

    /// Sizes and block lengths of its LUNs.
    ///
    /// # Errors
    /// If the request fails.
    pub fn shapes(&self, initiator: &str) -> Result<Vec<Shape>> {
        let mut session = real::login(&Libiscsi::load()?, self, initiator, &self.luns, 0)?;
        let mut shapes = Vec::with_capacity(self.luns.len());
        for lun in &self.luns {
            let answer = match session.perform(cdb::read_capacity(*lun))? {
                Ending::Good(answer) => cdb::capacity(&answer),
                _ => None,
            };
            let (blocks, block_bytes) = answer.with_context(|| format!("LUN {lun} reports no capacity"))?;
            let bytes = blocks.checked_mul(block_bytes.into()).context("a capacity that no unit has")?;
            shapes.push(Shape { bytes, block_bytes });
        }
        Ok(shapes)
    }

    /// The reason why its LUNs are unsuitable for volumes of these shapes, if any.
    ///
    /// # Errors
    /// If the request fails.
    pub fn unsuited(&self, volumes: &[Shape], initiator: &str) -> Result<Option<String>> {
        if self.luns.len() < volumes.len() {
            return Ok(Some(format!("{} LUNs are needed, {} are named", volumes.len(), self.luns.len())));
        }
        for ((lun, shape), found) in self.luns.iter().zip(volumes).zip(self.shapes(initiator)?) {
            let Shape { bytes, block_bytes } = found;
            if block_bytes != shape.block_bytes {
                let needed = shape.block_bytes;
                return Ok(Some(format!("LUN {lun} has blocks of {block_bytes} bytes, {needed} are needed")));
            }
            if bytes < shape.bytes {
                let (there, needed) = (bytes >> 20, shape.bytes >> 20);
                return Ok(Some(format!("LUN {lun} has {there} MiB, {needed} are needed")));
            }
        }
        Ok(None)
    }
}

impl Target for Foreign {
    fn name(&self) -> &'static str {
        "target"
    }

    fn iqn(&self) -> &str {
        &self.iqn
    }

    fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    fn pid(&self) -> Result<u32> {
        bail!("it runs elsewhere")
    }

    /// The owner of the target controls logins.
    fn set_login(&mut self, _: Option<Login>) {}

    /// Uses the existing LUNs: the lab creates none on a foreign array.
    fn fresh(&mut self, volumes: &[Shape], _: &[&str]) -> Result<Vec<u16>> {
        let luns = self.luns.get(..volumes.len());
        ensure!(luns.is_some(), "{} LUNs are needed, {} are named", volumes.len(), self.luns.len());
        Ok(luns.unwrap_or_default().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_portals_target_and_luns() -> Result<()> {
        let target: Foreign = "iscsi://127.0.0.1,127.0.0.1:3261/iqn.2001-04.org.example:a/0,7".parse()?;
        assert_eq!(target.portals, ["127.0.0.1:3260".parse()?, "127.0.0.1:3261".parse()?]);
        assert_eq!((target.iqn.as_str(), &target.luns[..]), ("iqn.2001-04.org.example:a", &[0, 7][..]));
        let nvme: ForeignNvme = "nvme://127.0.0.1/nqn.2001-04.org.example:a/1,7".parse()?;
        assert_eq!(nvme.portals, ["127.0.0.1:4420".parse()?]);
        assert_eq!(nvme.namespaces, [1, 7]);
        assert!("iscsi://127.0.0.1/nqn/1".parse::<ForeignNvme>().is_err());
        for wrong in ["127.0.0.1", "iscsi://127.0.0.1/iqn", "iscsi://127.0.0.1/iqn/x", "iscsi://?/iqn/0"] {
            assert!(wrong.parse::<Foreign>().is_err(), "{wrong}");
        }
        Ok(())
    }
}

//! The membership map: the controllers of a cluster, and the home of each domain.
//!
//! The map is replaced as a whole by compare-and-swap, so its versions have one order, and it contains everything that
//! controllers agree on. In the store it is JSON after a header with a format version and a checksum. Fields unknown to
//! this release are kept when it changes the map.

use crate::Error;
use bytes::Bytes;
use media::codec::{Versions, crc32c};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shelf::arbiter::MemberId;

/// Bound of versions: a larger one indicates damage.
pub(crate) const MAX_VERSION: u64 = u64::MAX / 2;

/// Formats that this release reads. A new format is needed only for content that an older release would misread.
pub const FORMATS: Versions = Versions { oldest: 1, current: 1 };

/// Maximum number of controllers of a cluster.
pub const MAX_MEMBERS: usize = 16;

const MAGIC: &[u8; 4] = b"ASHC";

/// Bytes before the JSON: magic, format, checksum.
const HEADER_BYTES: usize = 12;

/// Fields unknown to this release.
type Unknown = serde_json::Map<String, Value>;

/// Participation of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The controller takes part.
    Active,
    /// The controller left by itself.
    Left,
    /// The others found the controller silent, and took over its domains.
    Expelled,
}

/// Addresses of a controller for clients other than controllers. Nothing in this crate depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// URL of the API, or empty.
    #[serde(default)]
    pub api: String,
    /// iSCSI portals.
    #[serde(default)]
    pub iscsi: Vec<String>,
    /// NVMe/TCP portals.
    #[serde(default)]
    pub nvme: Vec<String>,
}

/// Endpoint and identity of a controller for other controllers. Nothing in this crate depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Address of the link, or empty.
    #[serde(default)]
    pub address: String,
    /// Fingerprint of the controller's certificate.
    #[serde(default)]
    pub certificate: String,
    /// Proof that the writer has the shared key of the array's controllers.
    #[serde(default)]
    pub proof: String,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Number of the controller, never reused.
    pub id: u16,
    /// Name for display.
    pub name: String,
    /// A random number of the controller's process.
    pub instance: u64,
    /// The version of the map in which this process joined.
    pub joined: u64,
    /// Address for other controllers.
    #[serde(default)]
    pub link: Link,
    /// Addresses for the API and for hosts.
    #[serde(default)]
    pub service: Service,
    /// Release of the controller's software.
    #[serde(default)]
    pub release: String,
    /// The newest format of the array that the controller reads.
    #[serde(default)]
    reads: Reads,
    /// Participation of the controller.
    pub standing: Standing,
    /// Whether an operator has drained the controller: it becomes the home only if no other controller can. A home is
    /// drained only until it has handed over.
    #[serde(default)]
    pub drained: bool,
    /// Start of this state, in seconds since 1970; zero if unknown.
    #[serde(default)]
    pub since: u64,
    #[serde(flatten)]
    other: Unknown,
}

/// Formats that a process reports to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Reads {
    /// The version in which the process joined: a release without this report keeps the report of an earlier one.
    joined: u64,
    /// The newest format of the array.
    format: u32,
}

impl Member {
    /// The newest format of the array that the controller's process reads; zero if it does not report that.
    pub fn reads(&self) -> u32 {
        if self.reads.joined == self.joined { self.reads.format } else { 0 }
    }
}

/// A domain: one engine over a store of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Number of the domain.
    pub domain: u16,
    /// The controller that serves the domain.
    pub home: u16,
    /// Epoch of that owner: the version of the map that made it the home.
    pub epoch: u64,
    /// Time at which it became the home, in seconds since 1970; zero if unknown.
    #[serde(default)]
    pub since: u64,
    #[serde(flatten)]
    other: Unknown,
}

/// The membership map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// Incremented by every change.
    pub version: u64,
    /// Time of the change, in seconds since 1970 by the clock of the controller that made it. For display only.
    #[serde(default)]
    pub made: u64,
    /// The array, as hex digits.
    pub array: String,
    /// Controllers ordered by number.
    pub members: Vec<Member>,
    /// Domains ordered by number.
    pub domains: Vec<Domain>,
    #[serde(flatten)]
    other: Unknown,
}

/// Report of a process when it joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The number of the controller.
    pub id: MemberId,
    /// Name for display.
    pub name: String,
    /// A random number, different in each process.
    pub instance: u64,
    /// Address for other controllers.
    pub link: Link,
    /// Addresses for the API and for hosts.
    pub service: Service,
    /// Release of the software.
    pub release: String,
    /// The newest format of the array that the process reads.
    pub reads: u32,
}

impl Map {
    /// The first map, with one controller that is the home of domain 0. `made` is the current time in seconds since
    /// 1970.
    pub fn first(array: u128, (version, made): (u64, u64), identity: &Identity) -> Self {
        let (array, other) = (format!("{array:032x}"), Unknown::new());
        let mut map = Self { version, made, array, members: Vec::new(), domains: Vec::new(), other };
        map.admit(identity);
        let home = identity.id.0;
        map.domains.push(Domain { domain: 0, home, epoch: version, since: made, other: Unknown::new() });
        map
    }

    /// The controller with this number.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id.0)
    }

    /// The version in which the process of this controller joined, if the controller takes part.
    pub fn active(&self, id: MemberId) -> Option<u64> {
        self.member(id).filter(|member| member.standing == Standing::Active).map(|member| member.joined)
    }

    /// Controllers that take part, with the versions in which their processes joined.
    pub fn active_members(&self) -> impl Iterator<Item = (MemberId, u64)> {
        let active = self.members.iter().filter(|member| member.standing == Standing::Active);
        active.map(|member| (MemberId(member.id), member.joined))
    }

    /// Domains of this home.
    pub fn domains_of(&self, id: MemberId) -> impl Iterator<Item = &Domain> {
        self.domains.iter().filter(move |domain| domain.home == id.0)
    }

    /// The home of a domain.
    pub fn home(&self, domain: u16) -> Option<&Domain> {
        self.domains.iter().find(|known| known.domain == domain)
    }

    /// A copy of this map with the next version, at least `floor`. `made` is the current time.
    pub(crate) fn next(&self, floor: u64, made: u64) -> Self {
        Self { version: (self.version + 1).max(floor), made, ..self.clone() }
    }

    /// Makes a process a member in this version; it replaces an earlier one with the same number.
    pub(crate) fn admit(&mut self, identity: &Identity) {
        let known = self.members.iter().position(|member| member.id == identity.id.0);
        let known = known.map(|at| self.members.remove(at));
        let drained = known.as_ref().is_some_and(|known| known.drained);
        let other = known.map(|known| known.other).unwrap_or_default();
        self.members.push(Member {
            id: identity.id.0,
            name: identity.name.clone(),
            instance: identity.instance,
            joined: self.version,
            link: identity.link.clone(),
            service: identity.service.clone(),
            release: identity.release.clone(),
            reads: Reads { joined: self.version, format: identity.reads },
            standing: Standing::Active,
            drained,
            since: self.made,
            other,
        });
        self.members.sort_by_key(|member| member.id);
    }

    /// Removes a controller.
    pub(crate) fn remove(&mut self, id: MemberId) {
        self.members.retain(|member| member.id != id.0);
    }

    /// Sets whether a controller is drained.
    pub(crate) fn set_drained(&mut self, id: MemberId, drained: bool) {
        if let Some(member) = self.members.iter_mut().find(|member| member.id == id.0) {
            member.drained = drained;
        }
    }

    /// Whether a controller is drained.
    pub fn is_drained(&self, id: MemberId) -> bool {
        self.member(id).is_some_and(|member| member.drained)
    }

    /// Ends the membership of a controller, and gives its domains to `heirs` in this version, each to the heir with the
    /// fewest domains, the first of these. A drained heir gets domains only if all are drained. Without heirs, the
    /// domains keep their home.
    pub(crate) fn release(&mut self, id: MemberId, standing: Standing, heirs: &[MemberId]) {
        for member in self.members.iter_mut().filter(|member| member.id == id.0) {
            (member.standing, member.since) = (standing, self.made);
        }
        for at in 0..self.domains.len() {
            if self.domains[at].home == id.0 {
                self.assign(at, heirs);
            }
        }
    }

    /// Gives a domain another home, in this version.
    pub(crate) fn reassign(&mut self, domain: u16, heirs: &[MemberId]) {
        if let Some(at) = self.domains.iter().position(|known| known.domain == domain) {
            self.assign(at, heirs);
        }
    }

    fn assign(&mut self, at: usize, heirs: &[MemberId]) {
        let order = |heir: &MemberId| (self.is_drained(*heir), self.domains_of(*heir).count());
        let heir = heirs.iter().copied().min_by_key(order);
        if let Some(heir) = heir {
            let domain = &mut self.domains[at];
            (domain.home, domain.epoch, domain.since) = (heir.0, self.version, self.made);
            // A drained controller that serves because no other one can is no longer drained.
            self.set_drained(heir, false);
        }
    }

    /// The encoded map.
    ///
    /// # Errors
    /// [`Error::Map`] if it can't be encoded.
    pub fn encode(&self) -> Result<Bytes, Error> {
        let json = serde_json::to_vec(self).map_err(|error| Error::Map(error.to_string()))?;
        let format = FORMATS.current.to_le_bytes();
        let sum = crc32c([&format[..], &json]).to_le_bytes();
        Ok([&MAGIC[..], &format, &sum, &json].concat().into())
    }

    /// Decodes the bytes of [`Map::encode`].
    ///
    /// # Errors
    /// [`Error::Map`] if the map is damaged, or of a newer release.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let damaged = |what: &str| Error::Map(format!("the cluster's map is damaged: {what}"));
        let (header, json) =
            bytes.split_at_checked(HEADER_BYTES).ok_or_else(|| damaged("it is too short"))?;
        let Some(([magic, format, sum], _)) = header.as_chunks::<4>().0.split_first_chunk::<3>() else {
            return Err(damaged("it is too short"));
        };
        if magic != MAGIC {
            return Err(damaged("it does not begin as a map does"));
        }
        if crc32c([&format[..], json]) != u32::from_le_bytes(*sum) {
            return Err(damaged("its checksum is wrong"));
        }
        let format = u32::from_le_bytes(*format);
        if !FORMATS.reads(format) {
            let what = FORMATS.refusal("the cluster's map", format);
            return Err(Error::Map(what.to_string()));
        }
        let map: Self = serde_json::from_slice(json).map_err(|error| damaged(&error.to_string()))?;
        let ordered = |ids: &mut dyn Iterator<Item = u16>| ids.is_sorted_by(|before, after| before < after);
        let versions = map.members.iter().map(|member| member.joined);
        let mut epochs = versions.chain(map.domains.iter().map(|domain| domain.epoch));
        if map.version == 0
            || map.version >= MAX_VERSION
            || epochs.any(|version| version > map.version || version == 0)
            || !ordered(&mut map.members.iter().map(|member| member.id))
            || !ordered(&mut map.domains.iter().map(|domain| domain.domain))
        {
            return Err(damaged("its numbers contradict each other"));
        }
        Ok(map)
    }
}

#[cfg(test)]
#[path = "map_test.rs"]
mod tests;

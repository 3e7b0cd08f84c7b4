//! Records of external servers: notification targets and directories.

use crate::access::Role;
use crate::destination::{Content, Destination};
use crate::directory::DirectorySettings;
use crate::id::{DirectoryId, Identity, NotificationTargetId};
use crate::secret::{Sealed, SealedField};
use crate::severity::Severity;
use crate::stored::{stored, stored_list};
use crate::table::Named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// Configuration of a notification target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationTargetEntry {
    /// Identity.
    pub id: NotificationTargetId,
    /// Name.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Destination of notifications: of the address of a webhook what is shown, if `url` has all of it. Earlier releases stored it
    /// whole.
    #[serde(deserialize_with = "stored")]
    pub destination: Destination,
    /// The sealed address of a webhook, whose path, query, user and password are often secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Sealed>,
    /// The lowest severity of alerts and events to send.
    pub least: Severity,
    /// Content to send.
    #[serde(default = "Content::default_set", skip_serializing_if = "Content::is_default")]
    pub content: BTreeSet<Content>,
    /// Whether the target is enabled.
    pub enabled: bool,
    /// The sealed secret; its meaning depends on the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Sealed>,
}

impl NotificationTargetEntry {
    /// Purpose of the sealed secret.
    pub fn place(&self) -> String {
        format!("notification/{}", self.id.digits())
    }

    /// Purpose for which its address is sealed.
    pub fn url_place(&self) -> String {
        format!("{}/url", self.place())
    }
}

impl Named for NotificationTargetEntry {
    type Id = NotificationTargetId;
    const NOUN: &'static str = "notification target";

    fn id(&self) -> NotificationTargetId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }

    const SEALS: bool = true;

    fn sealed(&self) -> Vec<SealedField> {
        let field = |(sealed, place): (&Sealed, String)| SealedField {
            what: format!("notification target {:?}", self.name),
            place,
            sealed: sealed.clone(),
        };
        let secret = self.secret.iter().map(|it| (it, self.place()));
        secret.chain(self.url.iter().map(|it| (it, self.url_place()))).map(field).collect()
    }
}

/// The role granted to members of a group. The highest role of several groups applies; without a matching group, log-in is
/// refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Group name in the directory.
    pub group: String,
    /// Role of its members.
    pub role: Role,
}

/// Configuration of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Identity.
    pub id: DirectoryId,
    /// Name.
    pub name: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Sessions that began before this time have ended, in seconds since 1970.
    pub changed: u64,
    /// Protocol and settings.
    #[serde(deserialize_with = "stored")]
    pub settings: DirectorySettings,
    /// Roles granted to groups.
    #[serde(deserialize_with = "stored_list")]
    pub grants: Vec<Grant>,
    /// Whether the directory is enabled.
    pub enabled: bool,
    /// The sealed secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Sealed>,
}

impl DirectoryEntry {
    /// Purpose of the sealed secret.
    pub fn place(&self) -> String {
        format!("directory/{}", self.id.digits())
    }

    /// The highest role of these groups. LDAP compares group names without regard to case.
    pub fn role_of(&self, groups: &[String]) -> Option<Role> {
        let same = |one: &str, other: &str| match self.settings {
            DirectorySettings::Oidc(_) => one == other,
            DirectorySettings::Ldap(_) => one.to_lowercase() == other.to_lowercase(),
        };
        let granted = self.grants.iter().filter(|it| groups.iter().any(|group| same(group, &it.group)));
        granted.map(|it| it.role).max()
    }
}

impl Named for DirectoryEntry {
    type Id = DirectoryId;
    const NOUN: &'static str = "directory";

    fn id(&self) -> DirectoryId {
        self.id
    }

    fn label(&self) -> &str {
        &self.name
    }

    const SEALS: bool = true;

    fn sealed(&self) -> Vec<SealedField> {
        let field = |sealed: &Sealed| SealedField {
            what: format!("directory {:?}", self.name),
            place: self.place(),
            sealed: sealed.clone(),
        };
        self.secret.iter().map(field).collect()
    }
}

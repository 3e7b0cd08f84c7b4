//! Export and import of the configuration: the document of what is there, what an import of one would do, and doing it.
//!
//! An import creates what is missing, object by object, in the order in which objects refer to each other. It deletes
//! nothing, and changes an object that is there only if the operator names it. What it has done once, it does not do again.

use crate::array::transaction::{EmptyVolume, Transaction};
use crate::noun::connection::{CreateConnection, PeerName};
use crate::noun::directory::{CreateDirectory, DirectoryChange};
use crate::noun::document::{
    ConfigurationDocument, ConnectionItem, DirectoryItem, HostItem, SettingsItem, TargetItem, UserItem,
    VolumeItem,
};
use crate::noun::group::CreateGroup;
use crate::noun::host::{CreateHost, CreateHostGroup, HostChange, HostGroupChange};
use crate::noun::notification::{CreateNotificationTarget, NotificationTargetChange};
use crate::noun::schedule::CreateSchedule;
use crate::noun::settings::SettingsChange;
use crate::noun::volume::{CreateVolume, VOLUMES_PER_STEP, VolumeChange};
use crate::request::verbs;
use crate::{Error, Result};
use records::{Chap, Labels, LabelsChange, LimitsChange, PolicyChange, Secret};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// The configuration as one document, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowConfiguration;

/// What an import would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompareConfiguration(pub Import);

/// Import a configuration: create what is missing, and change what is named.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ImportConfiguration(pub Import);

/// A configuration to import.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Import {
    /// The document. The audit log has what it changes.
    #[serde(skip)]
    pub document: Box<ConfigurationDocument>,
    /// Objects that it may change, such as `volume/db1`.
    pub overwrite: BTreeSet<String>,
}

/// What an import does with one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ImportStep {
    /// Object, such as `volume/db1`.
    pub object: String,
    /// Action.
    pub action: ImportAction,
    /// Fields that differ, missing secret, or reason; `null` if there is nothing else to say.
    pub detail: Option<String>,
}

/// Action of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportAction {
    /// It is created.
    Create,
    /// It exists with equal properties.
    Unchanged,
    /// It exists with other properties, and keeps them.
    Differs,
    /// It exists with other properties, and takes those of the document.
    Overwrite,
    /// The document lacks a secret: nothing happens.
    NeedsSecret,
    /// An import can't change it: nothing happens.
    ByHand,
    /// It could not be created or changed.
    Failed,
}

verbs! {
    ShowConfiguration -> ConfigurationDocument, Read "show" "configuration", Admin
        => |tx, _| Ok(tx.array.document(&tx.array.config()));
    CompareConfiguration -> Vec<ImportStep>, Read "compare" "configuration", Admin
        => |tx, it| Transaction::rehearsal(tx.array, tx.caller).import(it.0).await;
    ImportConfiguration -> Vec<ImportStep>, Change "import" "configuration", Admin
        => |tx, it| tx.import(it.0).await;
}

/// A kind of object of a document.
trait Item: Clone + Serialize + Send + Sync {
    /// What its names begin with.
    const NOUN: &'static str;

    /// Its name among its kind.
    fn name(&self) -> String;

    /// The secret without which it can't become as the document has it.
    fn missing(&self, _: Option<&Self>) -> Option<&'static str> {
        None
    }

    /// Why it can't become as the document has it from what is there.
    fn unchangeable(&self, _: &Self) -> Option<&'static str> {
        None
    }

    fn create(self, tx: &mut Transaction<'_>) -> impl Future<Output = Result<()>> + Send;

    /// Creates several; what becomes of each.
    fn create_all(
        items: Vec<Self>,
        tx: &mut Transaction<'_>,
    ) -> impl Future<Output = Vec<Result<()>>> + Send {
        async move {
            let mut done = Vec::with_capacity(items.len());
            for item in items {
                done.push(item.create(tx).await);
            }
            done
        }
    }

    fn change(self, now: &Self, tx: &mut Transaction<'_>) -> impl Future<Output = Result<()>> + Send;
}

/// The names of the fields in which two objects differ.
fn differences<T: Serialize>(now: &T, wanted: &T) -> Vec<String> {
    let fields = |item: &T| match serde_json::to_value(item) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (now, wanted) = (fields(now), fields(wanted));
    let names: BTreeSet<&String> = now.keys().chain(wanted.keys()).collect();
    names.into_iter().filter(|name| now.get(*name) != wanted.get(*name)).cloned().collect()
}

/// What an object of a document is called.
fn object<T: Item>(item: &T) -> String {
    match item.name() {
        name if name.is_empty() => T::NOUN.into(),
        name => format!("{}/{name}", T::NOUN),
    }
}

/// Adds the objects of a section to those of a document.
fn add<T: Item>(objects: &mut BTreeSet<String>, items: &[T]) -> Result<()> {
    match items.iter().map(object).find(|object| !objects.insert(object.clone())) {
        Some(twice) => Err(Error::invalid(format!("the document has {twice} twice: leave one of them out"))),
        None => Ok(()),
    }
}

/// Refuses a document that has an object twice, and names of objects that it does not have.
fn check(document: &ConfigurationDocument, overwrite: &BTreeSet<String>) -> Result<()> {
    let mut objects = BTreeSet::new();
    add(&mut objects, document.settings.as_slice())?;
    add(&mut objects, &document.volume_groups)?;
    add(&mut objects, &document.volumes)?;
    add(&mut objects, &document.hosts)?;
    add(&mut objects, &document.host_groups)?;
    add(&mut objects, &document.connections)?;
    add(&mut objects, &document.schedules)?;
    add(&mut objects, &document.notification_targets)?;
    add(&mut objects, &document.directories)?;
    add(&mut objects, &document.users)?;
    match overwrite.iter().find(|name| !objects.contains(*name)) {
        Some(name) => Err(Error::invalid(format!(
            "the document has no object {name:?}: name one as the comparison does, such as volume/db1"
        ))
        .about("overwrite")),
        None => Ok(()),
    }
}

impl Transaction<'_> {
    async fn import(&mut self, import: Import) -> Result<Vec<ImportStep>> {
        let Import { mut document, overwrite } = import;
        document.normalise();
        check(&document, &overwrite)?;
        let now = self.array.document(&self.config());
        let targets =
            document.notification_targets.into_iter().map(|it| self.without_known_url(it)).collect();
        let mut run = Run { tx: self, overwrite, steps: Vec::new() };
        if document.portals.is_some() && document.portals != now.portals {
            let detail = "addresses are those of a machine: add portals with ashlar portal add, or by iscsi and nvme in \
                          /etc/ashlar/ashlar.toml";
            run.note("portals".into(), ImportAction::ByHand, Some(detail.into()));
        }
        // A document of an earlier release does not have it: it stays.
        let lock = now.settings.as_ref().and_then(|it| it.max_retention_lock_seconds);
        let settings = document.settings.into_iter().map(|it| SettingsItem {
            max_retention_lock_seconds: it.max_retention_lock_seconds.or(lock),
            ..it
        });
        run.section(now.settings.as_slice(), settings.collect()).await;
        run.section(&now.volume_groups, document.volume_groups).await;
        run.section(&now.volumes, document.volumes).await;
        run.section(&now.hosts, document.hosts).await;
        run.section(&now.host_groups, document.host_groups).await;
        run.section(&now.connections, document.connections).await;
        run.section(&now.schedules, document.schedules).await;
        run.section(&now.notification_targets, targets).await;
        run.section(&now.directories, document.directories).await;
        run.section(&now.users, document.users).await;
        Ok(run.steps)
    }

    /// A target as it is shown if its whole destination is that of the array: an operator has added what is there.
    fn without_known_url(&self, item: TargetItem) -> TargetItem {
        let config = self.config();
        let known = config.notification_targets.find(&item.name);
        let whole = known.and_then(|it| self.array.parts.sealing.destination(it).ok());
        let is_known = whole.is_some_and(|it| it == item.destination);
        let destination = if is_known { item.destination.shown() } else { item.destination };
        TargetItem { destination, ..item }
    }
}

/// An import under way.
struct Run<'a, 't> {
    tx: &'a mut Transaction<'t>,
    overwrite: BTreeSet<String>,
    steps: Vec<ImportStep>,
}

impl Run<'_, '_> {
    fn note(&mut self, object: String, action: ImportAction, detail: Option<String>) {
        self.steps.push(ImportStep { object, action, detail });
    }

    /// One kind of object: what is there, and what the document has.
    async fn section<T: Item>(&mut self, now: &[T], wanted: Vec<T>) {
        let by_name: BTreeMap<String, &T> = now.iter().map(|item| (item.name(), item)).collect();
        // Those that follow each other are created together.
        let mut created = Vec::new();
        for item in wanted {
            let (object, existing) = (object(&item), by_name.get(&item.name()).copied());
            let (action, detail) = self.decide(&object, &item, existing);
            if action == ImportAction::Create {
                created.push((object, item));
                continue;
            }
            self.create_all(std::mem::take(&mut created)).await;
            let done = match (action, existing) {
                (ImportAction::Overwrite, Some(now)) => item.change(now, self.tx).await,
                _ => Ok(()),
            };
            self.ended(object, (action, detail), done);
        }
        self.create_all(created).await;
    }

    async fn create_all<T: Item>(&mut self, created: Vec<(String, T)>) {
        let (objects, items): (Vec<_>, Vec<_>) = created.into_iter().unzip();
        let done = T::create_all(items, self.tx).await;
        for (object, done) in objects.into_iter().zip(done) {
            self.ended(object, (ImportAction::Create, None), done);
        }
    }

    fn ended(&mut self, object: String, (action, detail): (ImportAction, Option<String>), done: Result<()>) {
        match done {
            Ok(()) => self.note(object, action, detail),
            Err(error) => self.note(object, ImportAction::Failed, Some(error.message)),
        }
    }

    fn decide<T: Item>(&self, object: &str, wanted: &T, now: Option<&T>) -> (ImportAction, Option<String>) {
        let differences = now.map(|now| differences(now, wanted));
        let named = self.overwrite.contains(object);
        match (&differences, now) {
            (Some(fields), _) if fields.is_empty() => (ImportAction::Unchanged, None),
            (Some(fields), _) if !named => (ImportAction::Differs, Some(fields.join(", "))),
            (_, now) => {
                if let Some(why) = now.and_then(|now| wanted.unchangeable(now)) {
                    return (ImportAction::ByHand, Some(why.into()));
                }
                if let Some(secret) = wanted.missing(now) {
                    return (ImportAction::NeedsSecret, Some(secret.into()));
                }
                match differences {
                    Some(fields) => (ImportAction::Overwrite, Some(fields.join(", "))),
                    None => (ImportAction::Create, None),
                }
            }
        }
    }
}

/// Exactly these labels, from what is there.
fn labels_change(now: &Labels, wanted: Labels) -> LabelsChange {
    LabelsChange::from(now.clone()).gone().then(wanted.into())
}

impl Item for SettingsItem {
    const NOUN: &'static str = "settings";

    fn name(&self) -> String {
        String::new()
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        let change = SettingsChange {
            name: Some(self.name),
            recycle_bin_seconds: Some(self.recycle_bin_seconds),
            unmap_throttle: Some(self.unmap_throttle),
            scrub_every_seconds: Some(self.scrub_every_seconds),
            max_retention_lock_seconds: self.max_retention_lock_seconds,
            time_zone: Some(self.time_zone),
            threads: None,
        };
        tx.change_settings(change).await.map(drop)
    }

    async fn change(self, _: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        self.create(tx).await
    }
}

impl Item for CreateGroup {
    const NOUN: &'static str = "volume-group";

    fn name(&self) -> String {
        self.name.clone()
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        tx.create_group(self).await.map(drop)
    }

    async fn change(self, now: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        tx.change_group(&now.name, self.overwrite(&now.labels)).await.map(drop)
    }
}

impl VolumeItem {
    /// Everything but size, block length and whether it takes changes.
    fn set(&self, now: &Labels) -> VolumeChange {
        VolumeChange {
            group: Some(self.group.clone()),
            policy: PolicyChange::from(self.policy).whole(),
            limits: LimitsChange::from(self.limits).whole(),
            scsi2_reservations: Some(self.scsi2_reservations),
            mixed_transports: Some(self.mixed_transports),
            labels: labels_change(now, self.labels.clone()),
            ..VolumeChange::default()
        }
    }

    /// The volume to create; `None` if an equal one exists.
    fn wanted(&self, tx: &Transaction<'_>) -> Result<Option<EmptyVolume>> {
        let new = CreateVolume {
            name: self.name.clone(),
            bytes: self.size,
            block_bytes: self.block_size,
            group: self.group.clone(),
            labels: labels_change(&Labels::default(), self.labels.clone()),
        };
        let Some(EmptyVolume { entry, geometry }) = tx.wanted(new)? else { return Ok(None) };
        let entry = tx.changed(&entry, self.set(&self.labels))?;
        Ok(Some(EmptyVolume { entry, geometry }))
    }

    async fn lock(&self, tx: &mut Transaction<'_>) -> Result<()> {
        if tx.is_rehearsal() {
            let entry = tx.config().volumes.named(&self.name)?.clone();
            return tx.refuse_held(&entry, self.read_only);
        }
        let change = VolumeChange { read_only: Some(self.read_only), ..VolumeChange::default() };
        tx.change_volume(&self.name, change).await.map(drop)
    }
}

impl Item for VolumeItem {
    const NOUN: &'static str = "volume";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn unchangeable(&self, now: &Self) -> Option<&'static str> {
        if self.block_size != now.block_size {
            return Some("the block size of a volume never changes: create another volume");
        }
        (self.size < now.size)
            .then_some("an import makes no volume smaller: use `ashlar volume resize --force`")
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        let Some(new) = self.wanted(tx)? else { return Ok(()) };
        tx.create_empty(&[new]).await?;
        if self.read_only { self.lock(tx).await } else { Ok(()) }
    }

    /// In steps of many volumes. If one step is refused, each of its volumes is created alone, so that the others are.
    async fn create_all(items: Vec<Self>, tx: &mut Transaction<'_>) -> Vec<Result<()>> {
        let mut done = Vec::with_capacity(items.len());
        for step in items.chunks(VOLUMES_PER_STEP) {
            let wanted: Vec<_> = step.iter().map(|item| item.wanted(tx)).collect();
            let new: Vec<_> = wanted.iter().filter_map(|it| it.as_ref().ok()?.clone()).collect();
            let all = tx.create_empty(&new).await;
            for (item, wanted) in step.iter().zip(wanted) {
                let created = match (wanted, &all) {
                    (Err(error), _) => Err(error),
                    (Ok(Some(new)), Err(_)) => tx.create_empty(&[new]).await,
                    (Ok(_), _) => Ok(()),
                };
                done.push(match created {
                    Ok(()) if item.read_only => item.lock(tx).await,
                    created => created,
                });
            }
        }
        done
    }

    async fn change(self, now: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        tx.change_volume(&self.name, self.set(&now.labels)).await?;
        if self.size != now.size {
            let change = VolumeChange { size: Some(self.size), ..VolumeChange::default() };
            tx.change_volume(&self.name, change).await?;
        }
        self.lock(tx).await
    }
}

impl HostItem {
    /// What becomes of CHAP in one direction: kept if its user stays and no secret is given.
    fn chap(user: Option<String>, secret: Option<Secret>) -> Option<Option<Chap>> {
        match (user, secret) {
            (None, _) => Some(None),
            (Some(user), Some(secret)) => Some(Some(Chap { user, secret })),
            (Some(_), None) => None,
        }
    }

    /// What becomes of a secret of DH-HMAC-CHAP or TLS: kept if none is given.
    fn secret(is_set: bool, secret: Option<Secret>) -> Option<Option<Secret>> {
        if is_set { secret.map(Some) } else { Some(None) }
    }
}

impl Item for HostItem {
    const NOUN: &'static str = "host";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn missing(&self, now: Option<&Self>) -> Option<&'static str> {
        let kept = |of: fn(&Self) -> &Option<String>| now.is_some_and(|now| of(now) == of(self));
        let lacks = |user: &Option<String>, secret: bool, kept: bool| user.is_some() && !secret && !kept;
        if lacks(&self.chap_user, self.chap_secret.is_some(), kept(|it| &it.chap_user)) {
            return Some("chap_secret");
        }
        if lacks(&self.mutual_user, self.mutual_secret.is_some(), kept(|it| &it.mutual_user)) {
            return Some("mutual_secret");
        }
        let kept = |of: fn(&Self) -> bool| now.is_some_and(of);
        if self.dhchap && self.dhchap_secret.is_none() && !kept(|it| it.dhchap) {
            return Some("dhchap_secret");
        }
        let given = self.dhchap_controller_secret.is_some() || kept(|it| it.dhchap_controller);
        if self.dhchap_controller && !given {
            return Some("dhchap_controller_secret");
        }
        (self.tls && self.tls_psk.is_none() && !kept(|it| it.tls)).then_some("tls_psk")
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        let new = CreateHost {
            name: self.name,
            initiators: self.initiators,
            nqns: self.nqns,
            wwpns: self.wwpns,
            chap: Self::chap(self.chap_user, self.chap_secret).flatten(),
            mutual: Self::chap(self.mutual_user, self.mutual_secret).flatten(),
            dhchap_secret: Self::secret(self.dhchap, self.dhchap_secret).flatten(),
            dhchap_controller_secret: Self::secret(self.dhchap_controller, self.dhchap_controller_secret)
                .flatten(),
            tls_psk: Self::secret(self.tls, self.tls_psk).flatten(),
            labels: LabelsChange::setting(self.labels.into()),
        };
        tx.create_host(new).await.map(drop)
    }

    async fn change(self, now: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        let change = HostChange {
            name: None,
            initiators: Some(self.initiators),
            nqns: Some(self.nqns),
            wwpns: Some(self.wwpns),
            chap: Self::chap(self.chap_user, self.chap_secret),
            mutual: Self::chap(self.mutual_user, self.mutual_secret),
            dhchap_secret: Self::secret(self.dhchap, self.dhchap_secret),
            dhchap_controller_secret: Self::secret(self.dhchap_controller, self.dhchap_controller_secret),
            tls_psk: Self::secret(self.tls, self.tls_psk),
            labels: labels_change(&now.labels, self.labels),
        };
        tx.change_host(&self.name, change).await.map(drop)
    }
}

impl Item for CreateHostGroup {
    const NOUN: &'static str = "host-group";

    fn name(&self) -> String {
        self.name.clone()
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        tx.create_host_group(self).await.map(drop)
    }

    async fn change(self, now: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        let labels = now.labels.gone().then(self.labels);
        let change = HostGroupChange { name: None, hosts: self.hosts, labels };
        tx.change_host_group(&self.name, change).await.map(drop)
    }
}

impl ConnectionItem {
    fn peer(&self) -> Result<PeerName> {
        match (&self.host, &self.host_group) {
            (Some(host), None) => Ok(PeerName::Host(host.clone())),
            (None, Some(group)) => Ok(PeerName::HostGroup(group.clone())),
            _ => Err(Error::invalid(format!(
                "a connection of volume {:?} has either a host or a host group",
                self.volume
            ))),
        }
    }
}

impl Item for ConnectionItem {
    const NOUN: &'static str = "connection";

    fn name(&self) -> String {
        let (kind, peer) = match (&self.host, &self.host_group) {
            (Some(host), _) => ("host", host.as_str()),
            (None, group) => ("host-group", group.as_deref().unwrap_or_default()),
        };
        format!("{}/{kind}/{peer}", self.volume)
    }

    fn unchangeable(&self, _: &Self) -> Option<&'static str> {
        Some("hosts use it: disconnect the volume, then import again")
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        let (peer, lun) = (self.peer()?, Some(self.lun));
        let Self { volume, read_only, .. } = self;
        // Not a snapshot of that name.
        tx.config().volumes.named(&volume)?;
        tx.connect(CreateConnection { volume, peer, lun, min_lun: None, read_only }).await.map(drop)
    }

    async fn change(self, _: &Self, _: &mut Transaction<'_>) -> Result<()> {
        Ok(())
    }
}

impl Item for CreateSchedule {
    const NOUN: &'static str = "schedule";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn unchangeable(&self, now: &Self) -> Option<&'static str> {
        let same = (&self.volume, &self.group) == (&now.volume, &now.group);
        (!same).then_some("what a schedule takes snapshots of never changes: create another schedule")
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        tx.create_schedule(self).await.map(drop)
    }

    async fn change(self, now: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        tx.change_schedule(&now.name, self.settings()).await.map(drop)
    }
}

impl Item for TargetItem {
    const NOUN: &'static str = "notification-target";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn missing(&self, now: Option<&Self>) -> Option<&'static str> {
        let is_same = |now: &Self| now.destination == self.destination.shown();
        if self.destination.is_incomplete() && !now.is_some_and(is_same) {
            return Some("destination.url");
        }
        let kept = now.is_some_and(|now| now.has_secret && is_same(now));
        (self.has_secret && self.secret.is_none() && !kept).then_some("secret")
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        let Self { name, destination, severity, content, enabled, secret, .. } = self;
        tx.create_target(CreateNotificationTarget { name, destination, secret, severity, content, enabled })
            .await
            .map(drop)
    }

    async fn change(self, _: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        let secret = secret_change(self.has_secret, self.secret);
        let (destination, severity, enabled) =
            (Some(self.destination), Some(self.severity), Some(self.enabled));
        let content = Some(self.content);
        let change = NotificationTargetChange { name: None, destination, secret, severity, content, enabled };
        tx.change_target(&self.name, change).await.map(drop)
    }
}

/// What becomes of a secret: another one, none, or the one that is there.
fn secret_change(wanted: bool, secret: Option<Secret>) -> Option<Option<Secret>> {
    match (wanted, secret) {
        (_, Some(secret)) => Some(Some(secret)),
        (false, None) => Some(None),
        (true, None) => None,
    }
}

impl Item for DirectoryItem {
    const NOUN: &'static str = "directory";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn missing(&self, now: Option<&Self>) -> Option<&'static str> {
        let kept = now.is_some_and(|now| now.has_secret && now.settings == self.settings);
        (self.has_secret && self.secret.is_none() && !kept).then_some("secret")
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        let Self { name, settings, grants, enabled, secret, .. } = self;
        tx.create_directory(CreateDirectory { name, settings, secret, grants, enabled }).await.map(drop)
    }

    async fn change(self, _: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        let secret = secret_change(self.has_secret, self.secret);
        let (settings, grants, enabled) = (Some(self.settings), Some(self.grants), Some(self.enabled));
        let change = DirectoryChange { name: None, settings, secret, grants, enabled };
        tx.change_directory(&self.name, change).await.map(drop)
    }
}

impl Item for UserItem {
    const NOUN: &'static str = "user";

    fn name(&self) -> String {
        self.name.clone()
    }

    fn missing(&self, now: Option<&Self>) -> Option<&'static str> {
        (now.is_none() && self.password.is_none()).then_some("password")
    }

    async fn create(self, tx: &mut Transaction<'_>) -> Result<()> {
        let password = self.password.ok_or_else(|| Error::invalid("a new user needs a password"))?;
        tx.create_user(self.name, self.role, &password).await.map(drop)
    }

    async fn change(self, _: &Self, tx: &mut Transaction<'_>) -> Result<()> {
        tx.change_user(&self.name, Some(self.role), None).await.map(drop)
    }
}

//! `ashlard`: the array as a process. It only connects the parts: threads, runtimes, sockets, drives, the data folder.
//!
//! Order of a start: lock the folder, open the drives or the array in Ceph (or format blank ones), recover the engine, load
//! the configuration into the target; only then do the portals and the API listen, so that a host never misses a volume
//! that is not loaded yet. One of several controllers of an array waits before that until it is the home.
//! Order of a stop: ask hosts to log out, write the last checkpoint.

mod args;
mod authentication;
mod certificate;
mod check;
mod config;
mod configuration;
mod fibre_channel;
mod front_end;
mod limits;
mod log;
mod log_limit;
mod manual;
mod portals;
mod reduction;
mod service;
#[cfg(test)]
mod sizing_test;
mod threads;
mod web;

use address::Addresses;
use anyhow::{Context, Result, ensure};
use args::{Command, ConfigCommand, KeyCommand};
use array::{Array, ArrayIdentity, Env, Parts, PortalEntry, SealingKey};
use block::Ledger;
use cluster::Service;
use configuration::Configuration;
use engine::Engine;
use fabric::board::{self, Board, Home};
use fabric::controller::Controller;
use fabric::held::OfMachine;
use fabric::kept::Kept;
use fabric::link::Link;
use fabric::shared_store::SharedStore;
use fabric::{arrays, controller, copies, home, join, logins, moving, standby};
use front_end::{Former, FrontEnd};
use history::Store;
use log::Log;
use machine::access::Folder;
use machine::fatal::{Deadline, Supervised};
use machine::{Machine, access, ceph, drives, fatal, key, memory, random, sharing, smart, stopped};
use mimalloc::MiMalloc;
use raid::device::Ring;
use scsi::Power;
use shelf::pool::Pool;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::signal::unix::{SignalKind, signal};
use transport::Permit;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Vendor and product of INQUIRY. They never change: ESXi copies between units only if their products are equal.
const VENDOR: &str = "ASHLAR";
const PRODUCT: &str = "ALL-FLASH ARRAY";
/// Interval of periodic work.
const TICK: Duration = Duration::from_secs(1);
/// Delay of a measurement after the end of its second, so that a timer is never early.
const MEASUREMENT_DELAY: Duration = Duration::from_millis(20);
/// How long hosts have to log out when a front end is stopped.
const LOGOUT_SECONDS: u16 = 3;
/// Time for the end of all connections, and for the last checkpoint after it. Beyond that the process ends all the same.
const END_HOSTS_LIMIT: Duration = Duration::from_secs(60);
const END_ARRAY_LIMIT: Duration = Duration::from_secs(225);
/// Exit code for a command line or a file with options that can't be used, as clap has it.
const WRONG_USAGE: u8 = 2;
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn main() -> ExitCode {
    let args = match config::parse(std::env::args_os().collect()) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("ashlard: {error:#}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    if args.openapi {
        return print(&api::openapi());
    }
    match &args.command {
        Some(Command::Config(of_file)) => {
            let ConfigCommand::Check { file } = &of_file.what;
            return ended(config::check(file));
        }
        Some(Command::Messages { json: true }) => return print(&array::catalogue::json()),
        Some(Command::Messages { json: false }) => return print(&array::catalogue::markdown()),
        Some(Command::Manual { folder }) => return ended(manual::write(folder).map(|()| 0)),
        Some(Command::Completion { shell }) => return print(&manual::completion(*shell)),
        Some(Command::FibreChannel(command)) => return ended(fibre_channel::left_behind::run(command)),
        Some(Command::SmartHelper) => return ended(smart::help().map(|()| 0)),
        _ => {}
    }
    let log = Log::start();
    access::keep_private();
    let outcome = machine::threads::management().and_then(|runtime| match args.command {
        Some(Command::Check(check)) => runtime.block_on(check::run(&check)),
        Some(Command::Format(format)) => runtime.block_on(format_drives(format.configuration())).map(|()| 0),
        Some(Command::Key(key)) => runtime.block_on(change_key(key.what)).map(|()| 0),
        Some(Command::ReductionReport(report)) => reduction::run(&report).map(|()| 0),
        _ => runtime.block_on(run(&args.configuration(), log)).map(|()| 0),
    });
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The exit code of a command that does not log.
fn ended(outcome: Result<usize>) -> ExitCode {
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ashlard: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Formats drives as a new array, without serving it.
async fn format_drives(format: drives::Format) -> Result<()> {
    let _lock = access::lock(&format.data)?;
    drives::format(format).await
}

/// Changes or destroys the key of a stopped array.
async fn change_key(what: KeyCommand) -> Result<()> {
    let array = match &what {
        KeyCommand::Rotate(rotate) => &rotate.stopped,
        KeyCommand::Erase(erase) => &erase.stopped,
    };
    let _lock = access::lock(&array.data)?;
    let backing = stopped::find(&array.data, &array.drive).await?;
    match what {
        KeyCommand::Rotate(rotate) => {
            let args::Rotate { stopped, key, new } = *rotate;
            key::rotate(&key.configuration(), &new.configuration(), &stopped.data, &backing).await
        }
        KeyCommand::Erase(erase) => key::erase(&erase.stopped.data, &backing).await,
    }
}

async fn run(config: &Configuration, log: Log) -> Result<()> {
    fatal::abort_on_panic();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut stop = pin!(async move {
        tokio::select! { _ = terminate.recv() => "SIGTERM", _ = interrupt.recv() => "SIGINT" }
    });
    refuse_removed_options(config)?;
    config.memory.check()?;
    let _lock = access::lock(&config.store.data)?;
    if let Some(token) = &config.controller.join {
        join::join(config.controller.number, &config.store, token).await?;
    }
    let Some(id) = config.number()? else { return serve(config, log, None, stop).await };
    let store = SharedStore::find(&config.store, id).await?;
    let array = store.array();
    let listener = standby::listen(&config.api)?;
    let board = Board::shared(id);
    let link = Link::prepare(&config.controller, (&config.store, config.hosts.sockets()), (array, id))?;
    let texts = |portals: &[SocketAddr]| portals.iter().map(ToString::to_string).collect();
    let api = standby::url(&config.api, listener.local_addr()?, &board::host_name());
    let addresses = Service { api, iscsi: texts(&config.hosts.iscsi), nvme: texts(&config.hosts.nvme) };
    let shown = link.as_ref().map(Link::shown).unwrap_or_default();
    let controller = store.controller((id, shown, addresses), board.clone()).await?;
    let watchdog = service::standing_by(controller.watched())?;
    let linked = link.clone().map(|link| (link, controller.map()));
    let sockets = limits::connections(config.threads.number_or(None), 0)?.api;
    let answers =
        standby::Answers::start(&config.api, sockets, listener.try_clone()?, (board.clone(), linked))?;
    let permit = controller.permit();
    let addresses = Addresses::new(move || permit.holds());
    let parts = (&controller, &store, &addresses);
    let front_end = link.as_ref().map(|link| FrontEnd::start(config, link, parts)).transpose()?;
    let outcome = tokio::select! {
        home = controller.home() => match home {
            Ok(home) => {
                let before = match front_end {
                    Some(front_end) => Some(front_end.keep().await),
                    None => None,
                };
                let (link, controller) = (link.zip(before), &controller);
                let shared = store.drives();
                let addresses = addresses.clone();
                let member =
                    Membership { controller, home, watchdog, answers, listener, board, link, shared, addresses };
                let end = async {
                    tokio::select! { signal = stop.as_mut() => signal, () = controller.drained() => "drain" }
                };
                serve(config, log, Some(member), end).await
            }
            Err(error) => Err(error),
        },
        signal = &mut stop => {
            tracing::info!(signal, "stopping");
            let _deadline = Deadline::start("connections do not end", END_HOSTS_LIMIT)?;
            if let Some(front_end) = front_end {
                front_end.stop(LOGOUT_SECONDS).await.stop();
            }
            Ok(())
        }
    };
    addresses.release_all();
    // Also after a failure: another controller may be able to serve.
    let drained = controller.is_drained();
    controller.leave().await;
    if drained && outcome.is_ok() {
        return start_again();
    }
    outcome
}

/// Starts this program again in its place, as a standby: nothing of its time as the home is left in memory.
fn start_again() -> Result<()> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| "ashlard".into());
    tracing::info!("the array is handed over: this controller starts again as a standby");
    // The file that runs now, even if another one has its name by now.
    let error = std::process::Command::new("/proc/self/exe").arg0(name).args(arguments).exec();
    Err(error).context("this program can't be started again: start ashlard")
}

/// What the home of a cluster has of its time as a standby.
struct Membership<'a> {
    controller: &'a Controller,
    home: Home,
    watchdog: service::Watchdog,
    answers: standby::Answers,
    /// The socket of the API.
    listener: TcpListener,
    board: Arc<Board>,
    /// Its link to other controllers, and what it served hosts by before, if it has one.
    link: Option<(Link, Former)>,
    /// The drives, if two controllers share these.
    shared: Option<&'a sharing::Shared>,
    /// Those that it has as long as it serves them.
    addresses: Addresses,
}

/// The options of an engine on this store with these workers.
fn engine_options(
    config: &Configuration,
    shelf: &dyn Pool,
    workers: &threads::WorkerThreads,
) -> Result<engine::Options> {
    let options = config.memory.engine_options(random()?, capacity(shelf));
    Ok(engine::Options { workers: workers.workers(), ..options })
}

/// Serves the array until it is stopped. The home of a cluster has an epoch, and answers hosts while its lease holds.
async fn serve(
    config: &Configuration,
    log: Log,
    mut member: Option<Membership<'_>>,
    stop: impl Future<Output = &'static str>,
) -> Result<()> {
    let permit = member.as_ref().map_or_else(Permit::default, |member| member.controller.permit());
    let board = member.as_ref().map_or_else(Board::single, |member| member.board.clone());
    let ring = Ring::start()?;
    let (shelf, given) = open_store(&ring, config, member.as_ref()).await?;
    let opened = Instant::now();
    let workers = threads::WorkerThreads::start()?;
    let options = engine_options(config, &*shelf, &workers)?;
    service::status("recovering");
    let engine = Engine::open(shelf.clone(), options).await.context("the array can't be recovered")?;
    let recovered = Instant::now();
    let background = threads::background(engine.clone())?;
    let keeper = threads::start_store(shelf.clone(), workers)?;
    let former = member.as_mut().and_then(|member| member.link.take());
    let (link, (shards, kept)) = former_or_new(former, config, &engine)?;
    let machine = Machine::new(ring, &config.store.data, given, keeper.handle(), config.store.key.clone());
    let machine = Arc::new(machine.sharing(member.as_ref().and_then(Membership::party)));
    let network = Arc::new(arrays::Tcp::listen(config.replication)?);
    let addresses = member.as_ref().map(|member| member.addresses.clone());
    let addresses = Arc::new(OfMachine(addresses.unwrap_or_else(|| Addresses::new(|| true))));
    let outside = (machine, board.clone(), network.clone(), addresses, shards.handles().len());
    let before = before(member.as_ref(), &link, &kept);
    let array = assemble(config, (&shelf, &engine), outside, (log, permit.clone()), before).await?;
    let (portals, nvme_portals) = listen_for_hosts(&array, (&shards, kept.is_some())).await?;
    let fibre_channel = serve_fibre_channel(&array, config, &shards)?;
    let listener =
        member.as_ref().map_or_else(|| standby::listen(&config.api), |it| Ok(it.listener.try_clone()?))?;
    let (web, url, tls, folder) = serve_api(config, listener, &board, &array).await?;
    announce(&array.identity, &portals, &nvme_portals, (&url, network.address()));
    if let Some(member) = &member {
        board.note_service(&member.home, [opened, recovered]);
    }
    let map = member.as_ref().map(|member| member.controller.map());
    let served = (&array, &engine, &*config.store.data);
    let home = link.zip(map).map(|it| home_of(it, served, (permit, &board), shards.handles()));
    go_on(home.as_ref(), kept, (&array, &shards));
    // What the standby had ends here: now more threads are watched, and the array answers itself.
    let cluster = member.map(Membership::end);
    let arrays = serve_arrays(network, array.array.clone())?;
    let ours = [background.watched(), keeper.watched(), arrays.watched()];
    let watched = shards.watched().chain(ours).chain(cluster);
    let watchdog = service::ready(watched.collect())?;

    let mut tasks = start_tasks(&array, home.clone(), (tls, folder));
    let signal = tokio::select! {
        signal = stop => signal,
        never = tasks.watch() => match never {},
    };
    tracing::info!(signal, "stopping");
    drop(watchdog);
    service::stopping();
    let deadline = Deadline::start("connections do not end", END_HOSTS_LIMIT)?;
    let finish = web.stop();
    tasks.end();
    arrays.stop();
    end_hosts(&array, fibre_channel).await;
    if let Some(home) = home {
        home.hand_over_history().await;
    }
    shards.stop();
    drop(deadline);
    let _deadline = Deadline::start("the array does not end", END_ARRAY_LIMIT)?;
    let checkpoint = engine.shutdown().await.context("the last checkpoint could not be written");
    background.end();
    keeper.end();
    finish();
    checkpoint?;
    tracing::info!("stopped");
    Ok(())
}

/// The link and what the controller served hosts by as a standby; new shards if it did not.
fn former_or_new(
    former: Option<(Link, Former)>,
    config: &Configuration,
    engine: &Engine,
) -> Result<(Option<Link>, Former)> {
    let Some((link, former)) = former else {
        let number = config.threads.number_or(array::kept_threads(engine)?);
        return Ok((None, (threads::Shards::start(number)?, None)));
    };
    Ok((Some(link), former))
}

/// Serves the API; returns also where, its certificate and what it keeps in the data folder.
async fn serve_api(
    config: &Configuration,
    listener: std::net::TcpListener,
    board: &Board,
    array: &Assembled,
) -> Result<(web::Web, String, api::Tls, Arc<Folder>)> {
    let address = listener.local_addr()?;
    let url = format!("{}://{address}", standby::scheme(&config.api));
    board.set_api(&standby::url(&config.api, address, &board::host_name()));
    let folder = Arc::new(Folder::new(&config.store.data, array.array.clone()));
    let tls = certificate::prepare(&array.array, &config.api, &folder).await?;
    make_first_user(&array.array).await;
    let token = access::token(&config.store.data)?;
    folder.show_access(&url, &token);
    let secured = (tls.clone(), config.api.plain_http());
    let listeners = (listener, array.listeners.clone());
    let web =
        web::start(listeners, secured, array.array.clone(), api::Token::new(&token), array.api_connections)?;
    Ok((web, url, tls, folder))
}

/// Listens for iSCSI and NVMe/TCP; returns where. A process that was a front end listens for iSCSI already (`kept`).
async fn listen_for_hosts(
    array: &Assembled,
    (shards, kept): (&threads::Shards, bool),
) -> Result<(Vec<SocketAddr>, Vec<SocketAddr>)> {
    let iscsi = portals::serve_iscsi(&array.server, &array.portals, (shards, kept)).await?;
    let nvme = portals::serve_nvme(&array.nvme, &array.portals, (shards, array.nvme_limits)).await?;
    array.array.share_connections();
    Ok((iscsi, nvme))
}

/// Ends the sessions of all hosts.
async fn end_hosts(array: &Assembled, fibre_channel: Option<fibre_channel::Service>) {
    let fibre_channel = fibre_channel::stop(fibre_channel, LOGOUT_SECONDS);
    tokio::join!(array.server.shutdown(), array.nvme.shutdown(), fibre_channel);
    array.array.flush().await;
}

/// What a home has of other controllers, and of its own time as a front end, and what it knows of the target's power: hosts see
/// one target over all controllers that forward.
type Before<'a> = (Option<&'a Link>, Option<&'a Kept>, Power);

fn before<'a>(member: Option<&Membership<'_>>, link: &'a Option<Link>, kept: &'a Option<Kept>) -> Before<'a> {
    let (link, kept) = (link.as_ref(), kept.as_ref());
    let power = match member.filter(|_| link.is_some()) {
        None => Power::EndsWithProcess,
        // No other home had this epoch.
        Some(Membership { home: Home { epoch: fresh, .. }, .. }) => {
            kept.and_then(Kept::power_on).map_or(Power::Unknown { fresh: *fresh }, Power::On)
        }
    };
    (link, kept, power)
}

fn exports(power: Power) -> Arc<export::Exports> {
    let exports = export::Exports::new(Arc::new(transport::SystemClock::default()));
    exports.set_power(power);
    exports
}

/// Makes the first user of a new array, and shows its password.
async fn make_first_user(array: &Array) {
    match array.first_user().await {
        Ok(password) => password.iter().for_each(certificate::show_password),
        Err(error) => tracing::error!(%error, "there is no user yet: start the array again after that"),
    }
}

/// The thread of links to other arrays: their transfers must not delay the API.
fn serve_arrays(network: Arc<arrays::Tcp>, array: Arc<Array>) -> Result<machine::threads::Worker> {
    let (links, transfers) = (network.run(array.clone()), array.replicate());
    machine::threads::worker("arrays", machine::threads::runtime()?, async move {
        tokio::join!(links, transfers);
    })
}

/// What serves front ends of other controllers.
fn home_of(
    (link, map): (Link, controller::MapWatch),
    (array, engine, data): (&Assembled, &Arc<Engine>, &Path),
    (permit, board): (Permit, &Board),
    shards: Vec<tokio::runtime::Handle>,
) -> Arc<home::Home> {
    let admitting = link.clone();
    board.set_admission(Arc::new(move |taken| admitting.admit(taken)));
    let configured = array.array.clone();
    let listeners = array.listeners.clone();
    let parts = home::Parts {
        link,
        map,
        data: data.to_owned(),
        target: array.target.clone(),
        ledger: engine.notes_commands().then(|| -> Arc<dyn Ledger> { engine.clone() }),
        permit,
        portals: Arc::new(move || configured.portals()),
        history: array.history.clone(),
        take_api: Arc::new(move |stream, from| listeners.take(stream, from)),
        put_logins: logins::into(array.array.clone()),
        shards,
    };
    home::Home::new(parts, &array.identity.target_iqn(), array.server.access_table())
}

/// Starts the work that lasts as long as the array is served.
fn start_tasks(
    array: &Assembled,
    home: Option<Arc<home::Home>>,
    (tls, folder): (api::Tls, Arc<Folder>),
) -> Supervised {
    let mut tasks = Supervised::default();
    let served = &array.array;
    tasks.spawn("clock", tick(served.clone()));
    tasks.spawn("notices", served.notifier().clone().deliver());
    tasks.spawn("measurements", measure(served.clone()));
    tasks.spawn("certificate", certificate::follow(served.clone(), tls, folder.clone()));
    tasks.spawn("folder", folder.keep_trying());
    if let Some(home) = home {
        tasks.spawn("front ends", home.clone().serve());
        tasks.spawn("portals", moving::serve(home.clone(), array.array.clone()));
        tasks.spawn("access", home.follow(array.server.clone(), array.identity.target_iqn()));
    }
    tasks
}

impl Membership<'_> {
    /// By what this process is registered at shared drives.
    fn party(&self) -> Option<(Arc<raid::shared::Party>, raid::shared::Timer)> {
        let shared = self.shared?;
        Some((shared.party.clone(), shared.timer.clone()))
    }

    /// Ends what only a standby has. Returns the thread of the membership, which keeps running.
    fn end(self) -> machine::threads::Watched {
        self.answers.stop();
        drop(self.watchdog);
        self.controller.watched()
    }
}

fn refuse_removed_options(config: &Configuration) -> Result<()> {
    anyhow::ensure!(
        !config.format_force,
        "--format-force was removed. To overwrite drives, run once: ashlard format --data {} --drive \
         PATH… --force; drives of an Ashlar array need --take-from-array ID",
        config.store.data.display()
    );
    Ok(())
}

/// The store, and the drives that it was started with.
async fn open_store(
    ring: &Arc<Ring>,
    config: &Configuration,
    member: Option<&Membership<'_>>,
) -> Result<(Arc<dyn Pool>, Vec<PathBuf>)> {
    let epoch = member.map(|member| member.home.epoch);
    if let (Some(shared), Some(epoch)) = (member.and_then(|member| member.shared), epoch) {
        return Ok((shared.open(&config.store, epoch).await?, drives::given(&config.store)?));
    }
    let config = &config.store;
    if ceph::is_meant(config)? {
        return Ok((ceph::open(config, epoch).await?, Vec::new()));
    }
    Ok((drives::open(ring, config).await?, drives::given(config)?))
}

/// Serves the sessions that this process had as a front end, as long as the threads of connections go on.
fn go_on(
    home: Option<&Arc<home::Home>>,
    kept: Option<Kept>,
    (array, shards): (&Assembled, &threads::Shards),
) {
    if let (Some(home), Some(kept)) = (home, kept) {
        array.array.put_logins(kept.served.logins.take());
        let front_end = kept.attach_to(array.target.clone());
        drop(shards.handles()[0].spawn(home.clone().serve_own(front_end)));
    }
}

/// Serves Fibre Channel hosts, if there are ports for them.
fn serve_fibre_channel(
    array: &Assembled,
    config: &Configuration,
    shards: &threads::Shards,
) -> Result<Option<fibre_channel::Service>> {
    if config.hosts.fc.is_empty() {
        return Ok(None);
    }
    let parts = fibre_channel::Parts {
        serial: array.identity.serial.clone(),
        exports: array.exports.clone(),
        target: array.target.clone(),
        budget: array.budget.clone(),
        numbers: portals::fibre_channel_numbers(&config.hosts, &array.portals),
        ports: config.hosts.fc.clone(),
        shards: shards.handles(),
        sessions: array.fibre_channel.clone(),
    };
    fibre_channel::start(parts).map(Some)
}

/// Bytes of the log.
fn capacity(shelf: &dyn Pool) -> u64 {
    let layout = shelf.layout();
    u64::from(layout.segments) * u64::from(layout.segment_bytes)
}

/// The parts above the engine.
struct Assembled {
    identity: ArrayIdentity,
    exports: Arc<export::Exports>,
    budget: Arc<transport::Budget>,
    target: Arc<scsi::Target>,
    /// The portals of this controller.
    portals: Vec<PortalEntry>,
    server: Arc<iscsi::Server>,
    nvme: Arc<nvmf::Server>,
    nvme_limits: transport::ConnectionLimits,
    fibre_channel: Arc<fibre_channel::Sessions>,
    array: Arc<Array>,
    history: Arc<Store>,
    /// Listeners of the API that come and go.
    listeners: Arc<web::Listeners>,
    /// Sockets that the API may have.
    api_connections: usize,
}

/// The history. That of one of several controllers continues from its copy.
fn open_history(config: &Configuration, is_copy: bool) -> Arc<Store> {
    let history = Store::open(&config.store.data.join(copies::FILE));
    if is_copy && let Err(error) = history.leave_room() {
        tracing::error!(%error, "entries of a former home may be missing in the history");
    }
    Arc::new(history)
}

/// What the array has of the machine, of other controllers and arrays; and its threads for connections.
type Outside = (Arc<Machine>, Arc<Board>, Arc<arrays::Tcp>, Arc<OfMachine>, usize);

async fn assemble(
    config: &Configuration,
    (shelf, engine): (&Arc<dyn Pool>, &Arc<Engine>),
    (machine, controllers, network, addresses, threads): Outside,
    (log, permit): (Log, Permit),
    (link, kept, power): Before<'_>,
) -> Result<Assembled> {
    let now = board::time();
    let identity = array::load_identity(engine, &config.name, u64::from_le_bytes(random()?), now).await?;
    let exports = exports(power);
    let target = scsi::Target::new(scsi_names(&identity), exports.clone(), random()?);
    let mut settings = iscsi::ServerConfig::new(identity.target_iqn());
    let (of_iscsi, of_nvme, of_api) = host_connections(&config.hosts, threads)?;
    settings.connection_limits = transport::ConnectionLimits::new(of_iscsi);
    settings.permit = permit.clone();
    let nvme_limits = transport::ConnectionLimits::new(of_nvme);
    let (server, budget) = match kept {
        Some(Kept { served, .. }) => {
            ensure!(served.name == identity.target_iqn(), "the former home had another name for hosts");
            (served.server.clone(), served.budget.clone())
        }
        None => {
            let budget = Arc::new(transport::Budget::new(memory::sessions(memory::limit().bytes)));
            (iscsi::Server::new(target.clone(), settings, budget.clone()), budget)
        }
    };
    let subsystem = nvmf::Subsystem::new(nvme_names(&identity), exports.clone());
    let worker = authentication::start()?;
    let nvme = nvmf::Server::new(subsystem.clone(), budget.clone(), permit, Box::new(seed), worker);
    let listeners = web::Listeners::new(config.api.address, config.api.tls_only);
    let history = open_history(config, link.is_some());
    let sealing = Arc::new(sealing_key(config, engine)?);
    let (engine, pool) = (engine.clone(), shelf.clone());
    let fibre_channel = Arc::<fibre_channel::Sessions>::default();
    let parts = Parts {
        engine,
        pool,
        machine,
        network,
        controllers,
        exports: exports.clone(),
        target: target.clone(),
        server: server.clone(),
        nvme: nvme.clone(),
        host_connections: of_iscsi + of_nvme,
        fibre_channel: fibre_channel.clone(),
        memory: memory::limit(),
        threads: array::Threads {
            now: u16::try_from(threads).unwrap_or(u16::MAX),
            by_option: config.threads.number.is_some(),
        },
        api: listeners.clone(),
        addresses,
        subsystem,
        history: history.clone(),
        sealing,
    };
    let array = Arc::new(Array::open(parts, identity.clone(), VERSION, environment(log)?).await?);
    let own = portals::own_ports(config.controller.number, link);
    let portals = array.settle_portals(own, &portals::endpoints(&config.hosts)).await?;
    Ok(Assembled {
        identity,
        exports,
        budget,
        target,
        portals,
        server,
        nvme,
        nvme_limits,
        fibre_channel,
        array,
        history,
        listeners,
        api_connections: of_api,
    })
}

/// What the array has from the system.
fn environment(log: Log) -> Result<Env> {
    Ok(Env {
        random: Box::new(|| u128::from_le_bytes(random().expect("the system gave random numbers before"))),
        now: Box::new(SystemTime::now),
        uptime: Box::new(machine::uptime(random()?)),
        system: Box::new(move || log::system(&log)),
    })
}

/// The key of the secrets in the configuration; locked if it is not there.
fn sealing_key(config: &Configuration, engine: &Engine) -> Result<SealingKey> {
    Ok(match access::secrets_key(&config.store.data, array::has_sealed_secrets(engine)?) {
        Ok(key) => SealingKey::new(key),
        Err(why) => {
            tracing::error!(why, "secrets can't be opened");
            SealingKey::locked(why)
        }
    })
}

/// The names of the SCSI target.
fn scsi_names(identity: &ArrayIdentity) -> scsi::TargetIdentity {
    scsi::TargetIdentity {
        name: identity.target_iqn(),
        vendor: VENDOR.into(),
        product: PRODUCT.into(),
        revision: VERSION.chars().filter(char::is_ascii_digit).take(4).collect(),
        // Until the portals have their numbers.
        ports: scsi::PortGroups::new(Vec::new()),
    }
}

/// The names of the NVM subsystem.
fn nvme_names(identity: &ArrayIdentity) -> nvmf::SubsystemIdentity {
    nvmf::SubsystemIdentity {
        nqn: identity.subsystem_nqn(),
        serial: identity.serial.clone(),
        model: format!("{VENDOR} {PRODUCT}"),
        revision: VERSION.into(),
    }
}

/// Connections of iSCSI hosts, of NVMe/TCP hosts and of the API.
fn host_connections(config: &portals::Config, threads: usize) -> Result<(usize, usize, usize)> {
    let connections = limits::connections(threads, if config.fc.is_empty() { 0 } else { tcmu::MAX_DEVICES })?;
    // NVMe/TCP hosts have a connection for each queue, iSCSI hosts one for each portal.
    let of_nvme = if config.nvme.is_empty() { 0 } else { connections.hosts / 2 };
    Ok((connections.hosts - of_nvme, of_nvme, connections.api))
}

/// Runs periodic work.
async fn tick(array: Arc<Array>) {
    let mut every = tokio::time::interval(TICK);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        array.tick().await;
    }
}

/// Measures once a second, on a blocking thread; less often if that takes more than a fiftieth of the time.
async fn measure(array: Arc<Array>) {
    let mut cost = Duration::ZERO;
    loop {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let until = TICK + MEASUREMENT_DELAY - Duration::from_nanos(since.subsec_nanos().into());
        tokio::time::sleep((cost * 50).max(until)).await;
        let array = array.clone();
        let took = tokio::task::spawn_blocking(move || {
            let begin = std::time::Instant::now();
            array.measure();
            begin.elapsed()
        });
        // Averaged, since a write every ten seconds takes longer than the measurements in between.
        cost = (cost * 9 + took.await.unwrap_or_default()) / 10;
    }
}

/// Prints a text. A reader that closes the pipe early (`| head`) is no error.
fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("ashlard: standard output can't be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Reports in one line of JSON on standard output that everything listens, and where.
fn announce(
    identity: &ArrayIdentity,
    portals: &[SocketAddr],
    nvme: &[SocketAddr],
    (url, arrays): (&str, Option<SocketAddr>),
) {
    use std::io::Write;
    let ready = serde_json::json!({
        "ready": true,
        "target_iqn": identity.target_iqn(),
        "portals": portals.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "subsystem_nqn": identity.subsystem_nqn(),
        "nvme_portals": nvme.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "api": url,
        "replication": arrays.map(|address| address.to_string()),
    });
    tracing::info!(target_iqn = identity.target_iqn(), ?portals, nvme_portals = ?nvme, api = url, "ready");
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{ready}").and_then(|()| out.flush()) {
        tracing::warn!(%error, "standard output can't be written");
    }
}

/// Random bytes for the authentication of one connection.
fn seed() -> std::io::Result<[u8; 32]> {
    random().map_err(std::io::Error::other)
}

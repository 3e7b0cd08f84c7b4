//! Two controllers that share an array in Ceph and both serve hosts: the first is the home; the second has joined with
//! a token and forwards.

use crate::array::{Array, Programs};
use crate::cdb;
use crate::ceph::Pools;
use crate::libiscsi::{self, Ending, Libiscsi, Session};
use crate::real::make_ready;
use crate::scratch::free_addresses;
use crate::target::{Login, Shape, Target};
use anyhow::{Context, Result, bail, ensure};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time limit of operations on two controllers, including all repetitions.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between attempts.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Starts both, in folders below `folder`, with these volumes and hosts. The second one may not serve hosts yet.
///
/// # Errors
/// If one does not start.
pub fn start(
    programs: &Programs,
    folder: &Path,
    place: &Pools,
    content: (&[Shape], &[&str]),
) -> Result<[Array; 2]> {
    start_at(programs, folder, place, content, free_addresses()?)
}

/// The same with these addresses of their links.
fn start_at(
    programs: &Programs,
    folder: &Path,
    place: &Pools,
    (volumes, hosts): (&[Shape], &[&str]),
    links: [SocketAddr; 2],
) -> Result<[Array; 2]> {
    let folders = [folder.join("a"), folder.join("b")];
    folders.iter().try_for_each(std::fs::create_dir)?;
    let [of_first, of_second] = links.map(|link| ["--link".to_owned(), link.to_string()]);
    let number = ["--controller".to_owned(), "1".to_owned()];
    let store = place.arguments().into_iter().chain(number).chain(of_first).collect();
    let mut first = Array::start_on(programs, &folders[0], store, None)?;
    first.fresh(volumes, hosts)?;
    // The other one joins with a token, and needs only the cluster's configuration.
    let made = first.cli(&["controller", "add"])?;
    let token = made["token"].as_str().context("controller add without a token")?;
    let conf = place.conf.display().to_string();
    let join = ["--join", token, "--ceph-conf", &conf].map(str::to_owned);
    let store = join.into_iter().chain(of_second).collect();
    let mut second = Array::prepare(programs, &folders[1], store, first.iqn())?;
    second.restart_unattended()?;
    Ok([first, second])
}

/// Repeats an attempt until it succeeds.
///
/// # Errors
/// The last error, after [`TIMEOUT`].
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(_) if start.elapsed() <= TIMEOUT => std::thread::sleep(RETRY_INTERVAL),
            ended => return ended,
        }
    }
}

/// Both controllers as one target: the first portal is the home's, the second that of the forwarding controller.
pub struct Pair {
    controllers: [Array; 2],
    portals: [SocketAddr; 2],
    /// Where the home listens for the other controller.
    link: SocketAddr,
}

impl Pair {
    /// Starts both.
    ///
    /// # Errors
    /// If one does not start.
    pub fn start(programs: &Programs, folder: &Path, place: &Pools) -> Result<Self> {
        let links = free_addresses()?;
        let controllers = start_at(programs, folder, place, (&[], &[]), links)?;
        let portals = [controllers[0].portals()[0], controllers[1].portals()[0]];
        Ok(Self { controllers, portals, link: links[0] })
    }

    /// Kills controller 0 or 1.
    ///
    /// # Errors
    /// If it does not run.
    pub fn kill(&mut self, number: usize) -> Result<()> {
        self.controllers[number].kill()
    }

    /// Number of changes of the cluster's map in a controller's log.
    ///
    /// # Errors
    /// If it has no log.
    pub fn map_changes(&self, number: usize) -> Result<usize> {
        self.controllers[number].times_logged("the cluster's map has changed")
    }

    /// Restarts a controller without waiting until it serves.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn restart(&mut self, number: usize) -> Result<()> {
        self.controllers[number].restart_unattended()
    }

    /// Where the home listens for the other controller.
    pub(crate) fn link(&self) -> SocketAddr {
        self.link
    }

    /// Stops both.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.controllers.iter_mut().rev().try_for_each(Array::stop)
    }

    /// The home, and the forwarding controller.
    pub(crate) fn controllers(&self) -> &[Array; 2] {
        &self.controllers
    }

    /// Waits until the second controller serves a LUN to a host, and the host has received the unit attention for two
    /// active paths.
    fn reach(&self, initiator: &str, lun: u16) -> Result<()> {
        let (library, portal) = (Libiscsi::load()?, self.portals[1].to_string());
        retry(|| {
            let login = libiscsi::Login {
                initiator,
                portal: &portal,
                target: self.iqn(),
                lun,
                session: 0,
                header_digest: false,
            };
            let mut session = Session::login(&library, login)?;
            make_ready(&mut session, lun)?;
            let ending = session.perform(cdb::target_port_groups(lun))?;
            let Ending::Good(answer) = ending else { bail!("the port groups can't be read: {ending:?}") };
            let states = cdb::access_states(&answer);
            ensure!(states == [0, 0], "the port groups have the states {states:?}");
            Ok(())
        })
    }
}

impl Target for Pair {
    fn name(&self) -> &'static str {
        "two controllers"
    }

    fn iqn(&self) -> &str {
        self.controllers[0].iqn()
    }

    fn portals(&self) -> &[SocketAddr] {
        &self.portals
    }

    fn pid(&self) -> Result<u32> {
        self.controllers[0].pid()
    }

    fn fresh(&mut self, volumes: &[Shape], initiators: &[&str]) -> Result<Vec<u16>> {
        let luns = self.controllers[0].fresh(volumes, initiators)?;
        for (initiator, lun) in
            initiators.iter().flat_map(|initiator| luns.iter().map(move |lun| (initiator, lun)))
        {
            self.reach(initiator, *lun).context("the controller that forwards")?;
        }
        Ok(luns)
    }

    fn set_login(&mut self, login: Option<Login>) {
        self.controllers[0].set_login(login);
    }
}

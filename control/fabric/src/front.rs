//! The front end's end of the link: finds the home in the cluster's map, connects to it, and connects again.
//!
//! It has a thread of its own, so that nothing delays its signs of life.

use crate::board::DOMAIN;
use crate::controller::MapWatch;
use crate::link::{LastReason, Link, PROTOCOL, TICK, now};
use crate::wire::Wire;
use anyhow::{Result, ensure};
use cluster::MapMember;
use forward::FrontEnd;
use machine::threads::{self, Worker};
use peer::Channel;
use peer::message::Hello;
use shelf::arbiter::MemberId;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

/// Pause before the home is connected to again.
const RETRY: Duration = Duration::from_millis(250);

/// A front end that looks for its home, until it is stopped.
pub struct Running {
    /// What its sessions use.
    pub front_end: Arc<FrontEnd>,
    link: Worker,
}

/// Starts the front end of a process that takes part since this version of the map.
pub fn start(link: Link, map: MapWatch, joined: u64) -> Result<Running> {
    let front_end = FrontEnd::new(DOMAIN, joined, now);
    let driver = Driver { link, map, joined, front_end: front_end.clone() };
    Ok(Running { front_end, link: threads::worker("link", threads::management()?, driver.run())? })
}

impl Running {
    /// Ends the link: commands of sessions wait for another one.
    pub fn stop(self) {
        self.link.stop();
        self.front_end.disconnect();
    }
}

struct Driver {
    link: Link,
    map: MapWatch,
    joined: u64,
    front_end: Arc<FrontEnd>,
}

impl Driver {
    async fn run(self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reason = LastReason::default();
        loop {
            let Some(home) = self.home() else {
                self.wait(&mut ticks, sleep(RETRY)).await;
                continue;
            };
            let connected = self.wait(&mut ticks, connect(&self.link, self.joined, &home)).await;
            let error = match connected {
                Ok((wire, channel, hello)) => {
                    tracing::info!(home = home.id, "commands of hosts are forwarded to the home");
                    self.front_end.connect(channel, &hello);
                    let error = self.forward(wire, &home, &mut ticks).await;
                    self.front_end.disconnect();
                    error
                }
                Err(error) => error,
            };
            if let Some(error) = reason.note(&error) {
                tracing::warn!(home = home.id, error, "commands of hosts can't be forwarded to the home");
            }
            self.wait(&mut ticks, sleep(RETRY)).await;
        }
    }

    fn home(&self) -> Option<MapMember> {
        home(&self.link, &self.map)
    }

    /// Lets time pass for the sessions during other work, without a link.
    async fn wait<T>(&self, ticks: &mut Interval, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = work.as_mut() => return done,
                _ = ticks.tick() => {
                    // Without a link it can't be silent.
                    _ = self.front_end.tick();
                }
            }
        }
    }

    /// Forwards until the link breaks, or another controller is the home.
    async fn forward(&self, mut wire: Wire, home: &MapMember, ticks: &mut Interval) -> anyhow::Error {
        loop {
            wire.push(self.front_end.take_output());
            tokio::select! {
                received = wire.receive() => {
                    let taken = received.map_err(anyhow::Error::from).and_then(|bytes| {
                        Ok(self.front_end.receive(bytes)?)
                    });
                    if let Err(error) = taken {
                        return error;
                    }
                }
                () = self.front_end.asked() => {}
                _ = ticks.tick() => {
                    if let Err(error) = self.front_end.tick() {
                        return error.into();
                    }
                    if self.home().is_none_or(|now| (now.id, now.joined) != (home.id, home.joined)) {
                        return anyhow::anyhow!("controller {} is not the home any more", home.id);
                    }
                }
            }
        }
    }
}

/// The controller that is the home, if it has a link and is not this one.
pub(super) fn home(link: &Link, map: &MapWatch) -> Option<MapMember> {
    let map = map.borrow().clone()?;
    let home = map.home(DOMAIN)?.home;
    let member = map.member(MemberId(home)).filter(|_| map.active(MemberId(home)).is_some())?;
    (home != link.own.id && !member.link.address.is_empty()).then(|| member.clone())
}

/// A connection to the home, and who it says that it is. `joined`: since when this process takes part.
pub(super) async fn connect(link: &Link, joined: u64, home: &MapMember) -> Result<(Wire, Channel, Hello)> {
    let mut wire = Wire::new(link.connect(home, PROTOCOL).await?);
    let own = &link.own;
    let mut channel = Channel::new(own.id, own.array, joined);
    let hello = wire.greet(&mut channel).await?;
    ensure!(
        (hello.member, hello.joined) == (home.id, home.joined),
        "another process than the home answers at {}",
        home.link.address
    );
    Ok((wire, channel, hello))
}

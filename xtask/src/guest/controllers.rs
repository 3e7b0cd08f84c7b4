//! The guest as a host of two controllers of an array in a Ceph cluster, which runs here and is made for the case.

use super::{Case, Kind, LIMIT, create_hosts_and_volumes, script, serve, start, verdict};
use crate::ceph::with_cluster;
use anyhow::{Context, Result, bail};
use lab::array::{Array, Programs};
use lab::ceph::{self, Pools};
use lab::pair;
use lab::target::Target;
use std::path::Path;
use std::time::Duration;

/// How long a controller may go on that was expelled while it was frozen.
const GONE_LIMIT: Duration = Duration::from_secs(120);

/// Runs the case, or says why there can be no cluster here.
pub(super) fn run(case: &Case, programs: &Programs, data: &Path, lab: &Path) -> Result<()> {
    if let Some(reason) = ceph::missing() {
        println!("{}: left out: {reason}", case.name);
        return Ok(());
    }
    with_cluster("guest-ceph", |ceph| {
        std::fs::create_dir_all(data)?;
        let (conf, namespace) = (ceph.conf(), format!("guest-{:x}", lab::crash::new_seed()));
        let place = Pools { conf, pools: "meta".into(), namespace, encrypt: false };
        let mut both = pair::start(programs, data, &place, (&[], &[]))?;
        create_hosts_and_volumes(&both[0], case)?;
        let [a, b] = both.each_ref().map(|it| it.portals()[0].port());
        let variables = format!("IQN={}\nPORT_A={a}\nPORT_B={b}\n", both[0].iqn());
        std::fs::write(lab.join("script"), script(case, &variables)?)?;
        serve(start(Kind::Hosts, lab, LIMIT)?, lab, |words| answer(&mut both, words))?;
        both.iter_mut().try_for_each(Array::check_alive)?;
        verdict(lab)
    })
}

/// Does what the guest asks for. Controllers have the numbers 1 and 2.
fn answer(both: &mut [Array; 2], words: &[&str]) -> Result<String> {
    let of = |number: &str| -> Result<usize> {
        match number {
            "1" => Ok(0),
            "2" => Ok(1),
            _ => bail!("there is no controller {number}"),
        }
    };
    let done = match words {
        ["kill", number] => both[of(number)?].kill(),
        ["freeze", number] => both[of(number)?].pause(true),
        // It finds that it was expelled, and ends.
        ["thaw", number] => {
            let controller = &mut both[of(number)?];
            controller.pause(false).and_then(|()| controller.wait_gone(GONE_LIMIT))
        }
        ["stop", number] => both[of(number)?].stop(),
        ["start", number] => both[of(number)?].restart_unattended(),
        ["state", by, number] => return state(&both[of(by)?], number),
        ["cli", by, words @ ..] => return both[of(by)?].cli(words).map(|answer| format!("{answer}\n")),
        other => bail!("unknown request of the guest: {other:?}"),
    };
    done.map(|()| String::new())
}

/// The state of a controller, as another one or itself knows it.
fn state(by: &Array, number: &str) -> Result<String> {
    let list = by.cli(&["controller", "list"])?;
    let items = list.as_array().context("a list of controllers")?;
    let number: u64 = number.parse()?;
    let found = items.iter().find(|it| it["number"].as_u64() == Some(number));
    let state = found.and_then(|it| it["state"].as_str()).context("no such controller")?;
    Ok(format!("{state}\n"))
}

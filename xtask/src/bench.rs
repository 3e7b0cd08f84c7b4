//! Benchmarks: the array beside its peers on the same disk, as ratios (absolute figures say more about the machine), the
//! engine alone on drives in memory (`proof/bench`), and the record of the newest runs.

mod aims;
mod chart;
mod hold;
mod record;

use crate::ceph::with_cluster;
use crate::conformance::release_programs;
use crate::setup;
use crate::shell::{capture, cargo, command, exec, release_binary, target_dir};
use anyhow::{Context, Result, bail, ensure};
use lab::array::Programs;
use lab::bench::{self, Measured, Options, Row};
use lab::ceph::Pools;
use lab::compare;
use lab::crossing;
use lab::figures::{Case, Figure};
use lab::floor;
use lab::growth;
use lab::load::{Content, Direction, Measure, Order};
use lab::management::{self, Finding};
use lab::stats::{Comparison, Verdict};
use lab::transfer;
use std::path::PathBuf;
use std::time::Duration;

/// How to measure.
#[derive(clap::Args)]
pub struct Args {
    /// The suite; without it the array beside tgt, and SPDK if it is installed
    #[arg(value_enum)]
    what: Option<What>,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Seconds of each run
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Runs of each load on each target; the median counts [default: 3, and 10 to compare]
    #[arg(long)]
    rounds: Option<usize>,
    /// What is written
    #[arg(long, value_enum, default_value = "half")]
    data: Data,
    /// MiB of the volume that are used
    #[arg(long, default_value_t = 1024)]
    span: u64,
    /// Compare this build with that of another commit instead: faster, slower or the same, with a confidence
    #[arg(long, value_name = "COMMIT")]
    compare: Option<String>,
    /// Fail if an aim is missed; of loads beside a peer, if processor time or rate are much worse than recorded
    #[arg(long)]
    check: bool,
    /// Record the run in docs/benchmarks.json, in the place of the last one, and write the table of docs/benchmarks.md
    #[arg(long, conflicts_with_all = ["only", "compare"])]
    record: bool,
    /// With `lab`: folder of a run of `cargo xtask lab run --out DIR`
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// The engine alone, without network, on drives in memory
    Engine,
    /// Data reduction of several kinds of data
    Reduction,
    /// The cost of open web pages and metrics collection
    Management,
    /// The array's NVMe/TCP beside its iSCSI
    Nvme,
    /// Replication between two arrays: bytes over the network, speed, and what hosts notice
    Replication,
    /// Two controllers of an array in a Ceph cluster: what a crossing costs, and what the second one gains
    Cluster,
    /// What management costs as the array grows: changes, starts and lists beside thousands of volumes
    Growth,
    /// Record a run of the lab (--from)
    Lab,
    /// Write the table of docs/benchmarks.md from the recorded runs
    Table,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Data {
    /// Compresses to half, no duplicates
    Half,
    /// Does not compress
    Random,
    /// 64 different blocks
    Duplicate,
}

/// Random operations at depth per processor second, as a multiple of tgt's; docs/benchmarks.md says what is aimed at.
const RATIO_MIN: f64 = 1.0;

/// How often a run that is worse than recorded is repeated: other work of the machine seldom disturbs all of them.
const ATTEMPTS: usize = 3;

/// Measures and prints the table of docs/benchmarks.md.
pub fn run(args: &Args) -> Result<()> {
    if let Some(done) = alone(args) {
        return done;
    }
    let pairs = args.compare.is_some() || matches!(args.what, Some(What::Management));
    let nvme = matches!(args.what, Some(What::Nvme));
    if !pairs && !nvme {
        setup::need(&["tgt", "libiscsi-bin"])?;
    }
    let content = match args.data {
        Data::Half => Content::Half,
        Data::Random => Content::Random,
        Data::Duplicate => Content::Duplicate,
    };
    let options = Options {
        time: Duration::from_secs(args.seconds),
        rounds: args.rounds.unwrap_or(if pairs { 10 } else { 3 }),
        content,
        span: args.span << 20,
        target_core: 0,
        client_core: 1,
    };
    ensure!(!pairs || options.rounds >= 9, "fewer than 9 rounds can't tell a difference from noise");
    if let Some(commit) = &args.compare {
        let builds = [release_programs()?, programs_of(commit)?];
        return compare("the other build", args, |report| {
            compare::run([&builds[0], &builds[1]], &target_dir(), options, &args.only, report)
        });
    }
    if pairs {
        return compare("left alone", args, |report| {
            management::run(&release_programs()?, &target_dir(), options, &args.only, |found| match found {
                Finding::Share(part) => eprintln!("looking takes {:.2} % of a processor", part * 100.0),
                Finding::Load(row) => report(row),
            })
        });
    }
    let (programs, folder) = (release_programs()?, target_dir());
    let suite = if nvme { "nvme" } else { aims::suite(args.span) };
    let measure = || {
        let run = if nvme { bench::run_nvme } else { bench::run };
        let rows = run(&programs, &folder, options, &args.only)?;
        print(&rows);
        Ok(rows)
    };
    let rows = measure()?;
    if args.check {
        return check(suite, &rows, measure);
    }
    let mut figures = beside_peers(suite, &rows);
    if nvme {
        let floor = format!("{:.1} µs", floor::measure(options)?);
        println!(
            "\nA server without storage, 4 KiB at depth 32 over one connection: {floor} of the processor for each answer"
        );
        let name = "4K, depth 32, 1 connection, a server without storage: CPU per answer".to_owned();
        figures.push(record::Figure { name, array: "–".to_owned(), peer: floor, aim: String::new() });
    }
    if args.record {
        record::record(suite, figures)?;
    }
    Ok(())
}

/// Measures what needs no peer, if that is wanted.
fn alone(args: &Args) -> Option<Result<()>> {
    Some(match args.what? {
        What::Engine => printed(args, "engine", &["--only", &args.only]),
        What::Reduction => printed(args, "reduction", &["--reduction"]),
        What::Table => record::write(),
        What::Lab => recorded_lab(args),
        What::Replication => replicated(args),
        What::Cluster => crossed(args),
        What::Growth => release_programs()
            .and_then(|programs| growth::run(&programs, &target_dir(), &args.only))
            .and_then(|rows| finish(args, "growth", rows)),
        What::Management | What::Nvme => return None,
    })
}

fn recorded_lab(args: &Args) -> Result<()> {
    let folder = args.from.as_deref().context("--from names the folder of the run")?;
    record::record("lab", record::of_lab(folder)?)
}

/// The loads at depth on the array and all of its peers, for the report of the lab.
pub fn beside_spdk(mut case: Case) -> Result<Case> {
    setup::need(&["tgt", "libiscsi-bin"])?;
    let (seconds, rounds) = (3, 3);
    let options = Options {
        time: Duration::from_secs(seconds),
        rounds,
        content: Content::Half,
        span: 64 << 20,
        target_core: 0,
        client_core: 1,
    };
    for Row { name, ours, peers, .. } in bench::run(&release_programs()?, &target_dir(), options, "depth 32")?
    {
        let mut add = |what: &str, unit: &str, value: fn(&Measure) -> f64| {
            let column = |name, it: &Measured| (name, it.rounds.iter().map(value).collect::<Vec<_>>());
            let mut columns = vec![column("array", &ours)];
            columns.extend(peers.iter().map(|peer| column(peer.target, peer)));
            let columns: Vec<_> = columns.iter().map(|(name, values)| (*name, values.as_slice())).collect();
            case.figures.push(Figure::plain(&format!("{name}: {what}"), unit, &columns)?);
            anyhow::Ok(())
        };
        add("commands a second", "1/s", |it| it.iops)?;
        add("processor time of the target each", "µs", |it| it.cpu_us)?;
    }
    case.story.push(format!(
        "Targets have one core and the client the other, {rounds} rounds of {seconds} s in turn, on 64 MiB. Data compress to \
         half. The array has what is written in its journal when it answers, on three drives or striped with dual parity, and \
         then in its log, on four drives in files; what is read fits in its cache. tgt and SPDK on a file go to that once for \
         each command, past the page cache; SPDK on memory keeps nothing."
    ));
    case.notes
        .push("SPDK polls: a command costs it the time of its whole core, however much it has to do.".into());
    Ok(case)
}

/// The programs of a commit, built in a work tree of their own, and kept.
pub fn programs_of(commit: &str) -> Result<Programs> {
    let named = format!("{commit}^{{commit}}");
    let hash = capture(&mut command("git", &["rev-parse", "--verify", &named]))?.trim().to_owned();
    let folder = target_dir().join("compare");
    let kept = folder.join(&hash);
    let found = Programs { ashlard: kept.join("ashlard"), ashlar: kept.join("ashlar") };
    if found.ashlard.exists() && found.ashlar.exists() {
        return Ok(found);
    }
    let (tree, built) = (folder.join(format!("{hash}.tree")), folder.join("build"));
    // Left over from a build that was interrupted.
    if tree.exists() {
        std::fs::remove_dir_all(&tree)?;
    }
    let tree_name = tree.to_str().context("a path that is text")?;
    exec(&mut command("git", &["worktree", "add", "--force", "--detach", tree_name, &hash]))?;
    let mut build = cargo(&["build", "--release", "-p", "ashlard", "-p", "cli"]);
    let result = exec(build.current_dir(&tree).env("CARGO_TARGET_DIR", &built));
    exec(&mut command("git", &["worktree", "remove", "--force", tree_name]))?;
    result?;
    std::fs::create_dir_all(&kept)?;
    for (name, to) in [("ashlard", &found.ashlard), ("ashlar", &found.ashlar)] {
        std::fs::copy(built.join("release").join(name), to).with_context(|| format!("can't keep {name}"))?;
    }
    Ok(found)
}

/// Prints a line for each load; with `--check`, fails when one is slower or costs more of the processor.
fn compare(
    other: &str,
    args: &Args,
    measure: impl FnOnce(&mut dyn FnMut(&compare::Row)) -> Result<()>,
) -> Result<()> {
    println!("| load | IOPS, × {other} | verdict | I/O per CPU second, × {other} | verdict |");
    println!("|---|---|---|---|---|");
    let mut worse = 0;
    measure(&mut |row| {
        let cell = |it: &Comparison| {
            let verdict = match it.verdict {
                Verdict::More => "faster",
                Verdict::Less => "slower",
                Verdict::Same => "the same",
                Verdict::Unclear => "can't say",
            };
            let sure = if it.verdict == Verdict::Unclear { String::new() } else { confidence(it.confidence) };
            format!("{:.3} ({:.3}–{:.3}) | {verdict}{sure}", it.ratio, it.low, it.high)
        };
        worse += [row.rate, row.efficiency].iter().filter(|it| it.verdict == Verdict::Less).count();
        println!("| {} | {} | {} |", row.name, cell(&row.rate), cell(&row.efficiency));
    })?;
    if args.check && worse > 0 {
        bail!("{worse} figures are worse than {other}");
    }
    Ok(())
}

fn confidence(part: f64) -> String {
    format!(", {:.1} % sure", part * 100.0)
}

/// Runs a suite of `proof/bench`, which prints a table.
fn printed(args: &Args, suite: &str, words: &[&str]) -> Result<()> {
    let binary = release_binary("bench", "bench")?;
    let mut words = words.to_vec();
    if args.check {
        words.push("--check");
    }
    let mut bench = command(binary.to_str().context("a path that is text")?, &words);
    if !args.record {
        return exec(&mut bench);
    }
    let text = capture(&mut bench)?;
    print!("{text}");
    record::record(suite, record::figures(&text, [Some(0), Some(2), None, Some(1)]))
}

/// Measures replication between two arrays on loopback, and prints a table.
fn replicated(args: &Args) -> Result<()> {
    setup::need(&["libiscsi-bin"])?;
    let rows = transfer::run(&release_programs()?, &target_dir(), in_rounds(args, 3))?;
    finish(args, "replication", rows)
}

/// Measures two controllers of an array in a Ceph cluster that is made for the run, and prints a table.
fn crossed(args: &Args) -> Result<()> {
    let programs = release_programs()?;
    with_cluster("bench-cluster", |ceph| {
        let namespace = format!("crossing-{:x}", lab::crash::new_seed());
        let place = Pools { conf: ceph.conf(), pools: "meta".into(), namespace, encrypt: false };
        let rows = crossing::run(&programs, &target_dir(), &place, in_rounds(args, 6))?;
        finish(args, if aims::misses(args.span) { "cluster-uncached" } else { "cluster" }, rows)
    })
}

/// How to measure; `rounds` if the arguments do not say how many.
fn in_rounds(args: &Args, rounds: usize) -> transfer::Options {
    let time = Duration::from_secs(args.seconds);
    transfer::Options { time, rounds: args.rounds.unwrap_or(rounds), span: args.span << 20 }
}

/// Prints a table of figures with their aims, and records them if that is asked for.
fn finish(args: &Args, suite: &str, rows: Vec<transfer::Row>) -> Result<()> {
    println!("| figure | result | aim |\n|---|---|---|");
    rows.iter().for_each(|row| println!("| {} | {} | {} |", row.name, row.value, row.aim));
    let figure = |row: transfer::Row| record::Figure {
        name: row.name,
        array: row.value,
        peer: String::new(),
        aim: row.aim.to_owned(),
    };
    match args.record {
        true => record::record(suite, rows.into_iter().map(figure).collect()),
        false => Ok(()),
    }
}

/// The figures of all loads of a suite.
fn beside_peers(suite: &str, rows: &[Row]) -> Vec<record::Figure> {
    rows.iter().flat_map(|row| beside_peer(suite, row)).collect()
}

/// The figures of a load of a suite beside those of the first peer, and for writes beside those of a durable one, for which
/// the aims are.
fn beside_peer(suite: &str, row: &Row) -> Vec<record::Figure> {
    let durable = row.peers.iter().find(|peer| peer.target == DURABLE);
    let durable = durable.filter(|_| row.load.direction == Direction::Write);
    let aim = aims::of(suite, &row.name);
    let (Some(first), Some(durable)) = (row.peers.first(), durable) else {
        return row.peers.first().map(|peer| figures_beside(row, peer, aim)).unwrap_or_default();
    };
    let ratios = figures_beside(row, first, None).into_iter().filter(|figure| !figure.name.ends_with(CPU));
    ratios.chain(figures_beside(row, durable, aim)).collect()
}

/// The peer whose writes survive a power loss.
const DURABLE: &str = "tgt durable";

const CPU: &str = "CPU per I/O";

fn figures_beside(row: &Row, peer: &Measured, aim: Option<&aims::Aim>) -> Vec<record::Figure> {
    let (target, ours, peer) = (peer.target, row.ours.median, peer.median);
    let figure = |what: &str, array: String, peer: String, aim: Option<String>| record::Figure {
        name: format!("{}: {what}", row.name),
        array,
        peer,
        aim: aim.unwrap_or_default(),
    };
    let ratio = |ours: f64, peer: f64| format!("{:.2}", ours / peer);
    let iops = aim.and_then(|aim| aim.min_iops_ratio).map(|ratio| format!("≥ {ratio}"));
    let cpu = aim.and_then(|aim| aim.max_cpu_us).map(|time| format!("≤ {time} µs"));
    let p50 = aim.and_then(|aim| aim.max_p50_ratio).map(|ratio| format!("≤ {ratio}"));
    let mut figures = vec![
        figure(&format!("IOPS, × {target}"), ratio(ours.iops, peer.iops), "1".into(), iops),
        figure(CPU, format!("{:.1} µs", ours.cpu_us), format!("{:.1} µs", peer.cpu_us), cpu),
    ];
    // Not every client reports latencies.
    if (ours.p50_us / peer.p50_us).is_finite() {
        let what = format!("p50 latency, × {target}");
        figures.push(figure(&what, ratio(ours.p50_us, peer.p50_us), "1".into(), p50));
    }
    figures
}

/// A table for each peer.
fn print(rows: &[Row]) {
    let count = rows.iter().map(|row| row.peers.len()).max().unwrap_or(0);
    (0..count).for_each(|index| print_beside(rows, index));
}

fn print_beside(rows: &[Row], index: usize) {
    let pairs = rows.iter().filter_map(|row| Some((row, row.peers.get(index)?)));
    let Some((_, Measured { target, .. })) = pairs.clone().next() else { return };
    println!(
        "\n| load | IOPS, × {target} | I/O per CPU second, × {target} | CPU µs per I/O | {target}: CPU µs per I/O | \
         p50, × {target} | p99, × {target} |"
    );
    println!("|---|---|---|---|---|---|---|");
    // Not every client reports latencies.
    let ratio = |a: f64, b: f64| if (a / b).is_nan() { "–".to_owned() } else { format!("{:.2}", a / b) };
    for (Row { name, ours, .. }, peer) in pairs {
        let (ours, peer) = (ours.median, peer.median);
        println!(
            "| {name} | {} | {} | {:.1} | {:.1} | {} | {} |",
            ratio(ours.iops, peer.iops),
            ratio(peer.cpu_us, ours.cpu_us),
            ours.cpu_us,
            peer.cpu_us,
            ratio(ours.p50_us, peer.p50_us),
            ratio(ours.p99_us, peer.p99_us)
        );
    }
}

/// Only what does not depend on the machine's disk is promised.
fn keep_promise(rows: &[Row]) -> Result<()> {
    for Row { name, load, ours, peers } in rows {
        let promised = load.order == Order::Random && load.depth > 1;
        let tgt = peers.first().context("tgt was not measured")?;
        let ratio = tgt.median.cpu_us / ours.median.cpu_us;
        if promised && ratio < RATIO_MIN {
            bail!("{name}: {ratio:.2} times tgt's I/O per CPU second, {RATIO_MIN} are promised");
        }
    }
    Ok(())
}

/// Fails if a run breaks the promise, or if it and its repetitions are worse than recorded in the same figure.
fn check(suite: &str, first: &[Row], again: impl Fn() -> Result<Vec<Row>>) -> Result<()> {
    keep_promise(first)?;
    let recorded = record::recorded(suite)?;
    let worse_in = |rows: &[Row]| hold::worse(&recorded, &beside_peers(suite, rows));
    let mut worse = worse_in(first);
    for _ in 1..ATTEMPTS {
        if worse.is_empty() {
            break;
        }
        let found = worse_in(&again()?);
        worse.retain(|it| found.iter().any(|other| other.name == it.name));
    }
    let list = |it: &hold::Worse| {
        format!("{}: {:.2} times the peer's, recorded {:.2}", it.name, it.found, it.recorded)
    };
    let list: Vec<_> = worse.iter().map(list).collect();
    ensure!(worse.is_empty(), "worse than recorded in {ATTEMPTS} runs: {}", list.join("; "));
    Ok(())
}

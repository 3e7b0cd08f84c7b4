//! `ashlard check`: verifies everything on the drives of a stopped array without changing it. The array is opened as
//! for service, with journal replay, but over drives, or objects in Ceph, whose writes stay in memory, and
//! contradictions are listed instead of refused.
//!
//! `--repair` first does the same and prints the repair; after a confirmation it repeats it on the drives themselves and
//! writes one checkpoint.

use crate::args::Check;
use anyhow::{Context, Result, bail, ensure};
use engine::{Engine, FrameCheck, Loss, Options, Progress, Repair};
use machine::backing::OfflineStore;
use machine::{access, key, stopped};
use shelf::pool::{DriveState, Pool, PoolStatus};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of progress messages.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Bytes of segments that are in memory at once.
const MAX_HELD_BYTES: usize = 1 << 30;

/// Prints the defects, one per line. Returns how many there are, or are left after a repair.
pub async fn run(check: &Check) -> Result<usize> {
    if check.repair {
        return repair(check).await;
    }
    let defects = look(check).await?;
    print_some(&defects, check.limit)?;
    let mut out = std::io::stdout().lock();
    match defects.len() {
        0 => writeln!(out, "no defects")?,
        count => writeln!(out, "{count} defects")?,
    }
    Ok(defects.len())
}

async fn look(check: &Check) -> Result<Vec<String>> {
    let backing = stopped::find_read_only(&check.data, &check.drive).await?;
    let (shelf, engine, mut defects) = open(check, &backing).await?;
    defects.extend(reduced_redundancy(&shelf.status()));
    let (found, frames) = engine.begin_check(&mut progress()).await?;
    defects.extend(found);
    // What nothing refers to needs no scrub.
    engine.discard_unused();
    let frames = Arc::new(frames);
    check_frames(&frames, &shelf).await?;
    ensure!(engine.stopped().is_none(), "the store failed during the check");
    let findings = frames.end();
    defects.extend(findings.defects);
    let report = findings.scrubbed;
    if report.errors > 0 {
        let (errors, repaired) = (report.errors, report.repaired);
        defects.push(format!(
            "pages of the drives that are corrupted: {errors}; parity can restore {repaired} of them"
        ));
    }
    Ok(defects)
}

/// What is missing if fewer drives may fail than the array is made for. A repair does not change that: it is for the daemon to
/// rebuild.
fn reduced_redundancy(status: &PoolStatus) -> Option<String> {
    if status.tolerates >= status.failures_to_tolerate && status.degraded_segments == 0 {
        return None;
    }
    let failed = status.drives.iter().filter(|drive| drive.state == DriveState::Failed);
    let slots: Vec<_> = failed.map(|drive| drive.slot.to_string()).collect();
    let drives = match slots.is_empty() {
        true => String::new(),
        false => format!("; missing, unreadable or failed: the drives in slots {}", slots.join(", ")),
    };
    let (tolerates, specified, segments) =
        (status.tolerates, status.failures_to_tolerate, status.degraded_segments);
    Some(format!(
        "reduced redundancy: {tolerates} more drives may fail without data loss, of {specified}; {segments} segments lack columns{drives}"
    ))
}

/// Reads all segments once, in the order of their places, with every processor that memory suffices for.
async fn check_frames(frames: &Arc<FrameCheck>, shelf: &Arc<dyn Pool>) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MAX_HELD_BYTES / shelf.layout().segment_bytes as usize).max(1);
    let worker = |number: usize| {
        let (frames, shelf) = (frames.clone(), shelf.clone());
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            let mut report = progress();
            runtime.block_on(async {
                while let Some(done) = frames.step(Some(&*shelf)).await {
                    if number == 0 {
                        report(Progress { phase: "segments", done, total: frames.total() });
                    }
                }
            });
        })
    };
    let workers: Vec<_> = (0..threads).map(worker).collect();
    for worker in workers {
        worker.await.context("a thread of the check ended early")?;
    }
    Ok(())
}

/// Opens an array in spite of contradictions, and returns them.
async fn open(check: &Check, backing: &OfflineStore) -> Result<(Arc<dyn Pool>, Arc<Engine>, Vec<String>)> {
    let key = key::unlock(&check.key.configuration(), &check.data, backing.envelopes().await?)?;
    let shelf = backing.open(key).await?;
    // The seed is for drives that hold no engine yet.
    let (engine, found) = Engine::open_leniently(shelf.clone(), Options::new([0; 32]))
        .await
        .context("there is no checkpoint that can be read: nothing can be checked or repaired")?;
    Ok((shelf, engine, found))
}

async fn repair(check: &Check) -> Result<usize> {
    let _lock = access::lock(&check.data)?;
    let backing = stopped::find(&check.data, &check.drive).await?;
    let trial = backing.trial();
    let planned = write(check, &trial, None).await?;
    let left = verify(check, &trial).await?;
    show(&planned, check.limit)?;
    if planned.defects.is_empty() && left.is_empty() {
        writeln!(std::io::stdout().lock(), "no defects: nothing was changed")?;
        return Ok(0);
    }
    if !left.is_empty() {
        print_some(&left, check.limit)?;
        bail!("{} defects would be left: nothing was changed", left.len());
    }
    if !check.yes && !is_confirmed()? {
        bail!("nothing was changed");
    }
    write(check, &backing, Some(&planned)).await?;
    let left = verify(check, &backing).await?;
    print_some(&left, check.limit)?;
    writeln!(std::io::stdout().lock(), "repaired: {} defects are left", left.len())?;
    Ok(left.len())
}

/// Repairs the array on these drives and writes the result; refuses to if that differs from what was planned.
async fn write(check: &Check, backing: &OfflineStore, planned: Option<&Repair>) -> Result<Repair> {
    let (_shelf, engine, found) = open(check, backing).await?;
    let repair = engine.repair(found, &mut progress()).await?;
    if planned.is_some_and(|planned| *planned != repair) {
        bail!("the drives changed during the check: nothing was written; try again");
    }
    if planned.is_some() || !repair.defects.is_empty() {
        engine.write_repair().await.context("the repair could not be written: the array is as it was")?;
    }
    Ok(repair)
}

/// Reopens the array, as the daemon will, and returns the remaining defects.
async fn verify(check: &Check, backing: &OfflineStore) -> Result<Vec<String>> {
    let (_shelf, engine, mut defects) = open(check, backing).await?;
    defects.extend(engine.check_with_progress(&mut progress()).await?);
    Ok(defects)
}

fn is_confirmed() -> Result<bool> {
    ensure!(std::io::stdin().is_terminal(), "add --yes to write this to the drives: nothing was changed");
    write!(std::io::stdout().lock(), "Write this to the drives? [y/N] ")?;
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Says what is wrong, and what is lost.
fn show(repair: &Repair, limit: usize) -> Result<()> {
    print_some(&repair.defects, limit)?;
    let mut out = std::io::stdout().lock();
    for loss in &repair.lost {
        let Loss { disk, snapshot, geometry, extents, more } = loss;
        let kind = if *snapshot { "snapshot" } else { "volume" };
        writeln!(out, "{kind} {:032x} has lost, in blocks of {} bytes:", disk.0, geometry.block_bytes)?;
        for extent in extents.iter().take(limit) {
            let each = u64::from(geometry.block_bytes);
            let (from, to) = (extent.lba, extent.lba + extent.blocks);
            writeln!(out, "  {from} to {} (bytes {} to {})", to - 1, from * each, to * each - 1)?;
        }
        if *more || extents.len() > limit {
            writeln!(out, "  and more")?;
        }
    }
    Ok(())
}

fn print_some(lines: &[String], limit: usize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines.iter().take(limit) {
        writeln!(out, "{line}")?;
    }
    if lines.len() > limit {
        writeln!(out, "and {} more: --limit prints them", lines.len() - limit)?;
    }
    Ok(())
}

/// Logs the progress now and then, with what is left of the phase at its rate so far.
fn progress() -> impl FnMut(Progress) + Send {
    let mut last = Instant::now();
    let mut phase_of = ("", last);
    move |Progress { phase, done, total }| {
        if phase_of.0 != phase {
            phase_of = (phase, Instant::now());
        }
        if last.elapsed() >= PROGRESS_EVERY {
            last = Instant::now();
            match estimate(phase_of.1.elapsed(), done, total) {
                Some(left) => tracing::info!("{phase}: {done} of {total}, about {} s left", left.as_secs()),
                None => tracing::info!("{phase}: {done} of {total}"),
            }
        }
    }
}

/// How long the rest takes at the rate so far.
fn estimate(elapsed: Duration, done: u64, total: u64) -> Option<Duration> {
    let left = total.saturating_sub(done);
    (done > 0).then(|| Duration::from_secs_f64(elapsed.as_secs_f64() * left as f64 / done as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_estimated_from_the_rate_so_far() {
        assert_eq!(estimate(Duration::from_secs(10), 25, 100), Some(Duration::from_secs(30)));
        assert_eq!(estimate(Duration::from_secs(10), 100, 100), Some(Duration::ZERO));
        assert_eq!(estimate(Duration::from_secs(10), 0, 100), None);
    }
}

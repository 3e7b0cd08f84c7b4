use super::checker::{Checker, Options};
use super::memory::{Fault, Memory, MemoryPort};
use super::plant::StaleCache;
use super::unit::Unit;
use anyhow::Result;
use std::cell::RefCell;
use std::rc::Rc;

const SIZE: u64 = 4096;
const ANSWERS: u64 = 3000;

fn unit() -> Result<Unit> {
    Unit::new(512, SIZE)
}

fn options(seed: u64, faults: bool) -> Options {
    Options { seed, faults, reservations: Some(false) }
}

/// A checker with two paths of a host and one of another host.
fn checker(fault: Fault, seed: u64, faults: bool) -> Result<(Checker, Rc<RefCell<Memory>>)> {
    let target = Memory::new(512, SIZE, fault, seed);
    let mut checker = Checker::new(vec![unit()?], options(seed, faults));
    for (path, host) in [(0, 0), (1, 0), (2, 1)] {
        let port = MemoryPort::new(&target, path, host);
        checker.add_path(host, format!("path {path}"), Box::new(port));
    }
    Ok((checker, target))
}

fn check(fault: Fault, seed: u64) -> Result<Checker> {
    let (mut checker, _) = checker(fault, seed, false)?;
    checker.fill()?;
    for _ in 0..2 {
        checker.run(ANSWERS, None)?;
        checker.settle(None)?;
    }
    Ok(checker)
}

#[test]
fn a_target_without_a_fault_passes() -> Result<()> {
    let mut done = super::checker::Report::default();
    for seed in 0..20 {
        let report = check(Fault::None, seed)?.report;
        done.reservations += report.reservations;
        done.conflicts += report.conflicts;
        done.differed += report.differed;
        done.explained += report.explained;
    }
    assert!(done.reservations > 20 && done.conflicts > 1000, "{done:?}");
    assert!(done.differed > 1000 && done.explained > 500_000, "{done:?}");
    Ok(())
}

#[test]
fn every_fault_of_a_target_is_found() {
    let faults = [
        Fault::StaleCache,
        Fault::LostWrite,
        Fault::TornCompare,
        Fault::FalseMiscompare,
        Fault::Misdirected,
        Fault::IgnoredReservation,
        Fault::FalseConflict,
        Fault::TornRead,
    ];
    for fault in faults {
        let missed: Vec<u64> = (0..10).filter(|seed| check(fault, *seed).is_ok()).collect();
        assert!(missed.is_empty(), "{fault:?} is not found with the seeds {missed:?}");
    }
}

#[test]
fn a_stale_cache_between_the_checker_and_a_sound_target_is_found() -> Result<()> {
    for seed in 0..10 {
        let target = Memory::new(512, SIZE, Fault::None, seed);
        let mut checker = Checker::new(vec![unit()?], options(seed, false));
        for path in 0..2 {
            let port = Box::new(MemoryPort::new(&target, path, path));
            checker.add_path(path, format!("path {path}"), Box::new(StaleCache::new(port, seed)));
        }
        checker.fill()?;
        let found = checker.run(ANSWERS, None).and_then(|()| checker.settle(None));
        assert!(found.is_err(), "seed {seed}");
    }
    Ok(())
}

/// Loses all paths with commands in flight, and continues over new ones.
fn survive_losses(fault: Fault, seed: u64) -> Result<u64> {
    let target = Memory::new(512, SIZE, fault, seed);
    let mut checker = Checker::new(vec![unit()?], options(seed, true));
    let mut lost = Vec::new();
    for path in 0..3 {
        let port = MemoryPort::new(&target, path, path.min(1));
        lost.push(port.lost.clone());
        checker.add_path(path.min(1), format!("path {path}"), Box::new(port));
    }
    checker.fill()?;
    for _ in 0..6 {
        checker.run(500, None)?;
        lost.drain(..).for_each(|lost| *lost.borrow_mut() = true);
        checker.abandon()?;
        checker.fence();
        let gone: Vec<usize> = checker.lost_paths().collect();
        assert_eq!(gone.len(), 3);
        for path in gone {
            let port = MemoryPort::new(&target, path, path.min(1));
            lost.push(port.lost.clone());
            checker.restore_path(path, Box::new(port));
        }
        // Later reads show whether a command without a response took effect.
        checker.run(500, None)?;
        target.borrow_mut().deliver_late();
        checker.settle(None)?;
    }
    Ok(checker.report.unanswered)
}

#[test]
fn commands_without_an_answer_took_effect_or_never_will() -> Result<()> {
    let mut unanswered = 0;
    for seed in 0..10 {
        unanswered += survive_losses(Fault::None, seed)?;
    }
    assert!(unanswered > 200, "{unanswered}");
    let found = (0..10).filter(|seed| survive_losses(Fault::LateWrite, *seed).is_err()).count();
    assert!(found >= 9, "late writes are found with {found} of 10 seeds");
    Ok(())
}

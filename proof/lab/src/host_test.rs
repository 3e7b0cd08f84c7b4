use super::world::{Access, Job, Locking, Mix, Mover, PowerOn, Reclaim, Transfers};
use super::*;

fn sends(host: &mut Host, now: Time) -> Vec<Send> {
    let mut out = Vec::new();
    host.advance(now, &mut out);
    out
}

/// Responds to every command immediately with `array`, until the host sends no more.
fn serve(host: &mut Host, mut array: impl FnMut(&Command) -> Outcome) -> Vec<Command> {
    let (mut now, mut seen) = (0, Vec::new());
    while let Some(next) = host.next_event() {
        now = next.max(now);
        for send in sends(host, now) {
            host.answered(now, send.tag, array(&send.command));
            seen.push(send.command);
        }
    }
    seen
}

#[test]
fn a_stunned_world_retries_and_continues() {
    let access = Access { bytes: 4096, read: 0, random: 100, weight: 1 };
    let mix = Mix::new(0, 0..1 << 20, 1, vec![access], Content::Half).paced(0, 0, Some(3));
    let mut host = Host::new(Settings::default(), 1, vec![Box::new(mix)], 1);
    let mut responses = 0;
    let seen = serve(&mut host, |_| {
        responses += 1;
        if responses < 5 { Outcome::NoSpace } else { Outcome::Good(Vec::new()) }
    });
    assert_eq!(seen.len(), 7);
    assert!(seen[..5].iter().all(|command| *command == seen[0]));
    assert_eq!(host.figures().stuns, 4);
    assert!(host.is_finished() && !host.is_stunned(0));
    assert!(host.figures().now() >= 4 * STUN_AGAIN);
}

#[test]
fn an_unsupported_copy_is_performed_by_the_host() {
    let job = Job::Copy { from: 0, from_at: 0, to: 1, to_at: 1 << 20, bytes: 256 << 10 };
    let transfers = Transfers { copy: 128 << 10, software: 64 << 10, outstanding: 1, ..Transfers::default() };
    let mut host = Host::new(Settings::default(), 2, vec![Box::new(Mover::new([job], transfers))], 1);
    let mut written = Vec::new();
    serve(&mut host, |command| match &command.kind {
        Kind::Read => Outcome::Good(command.at.to_le_bytes().to_vec()),
        Kind::Write(Content::Bytes(data)) => {
            written.push((command.disk, command.at, data.clone()));
            Outcome::Good(Vec::new())
        }
        _ => Outcome::Unsupported,
    });
    written.sort();
    let expected: Vec<_> =
        (0..4u64).map(|n| (1, (1 << 20) + n * 65536, (n * 65536).to_le_bytes().to_vec())).collect();
    assert_eq!(written, expected);
    assert!(host.is_finished());
    assert_eq!(host.figures().sum().offloaded[0].failed, 1);
}

/// Lock sectors; performs compare-and-write on them.
fn locks(sectors: &mut BTreeMap<u64, u64>, command: &Command) -> Outcome {
    let Kind::Ats { expect, replace } = command.kind else { return Outcome::Good(Vec::new()) };
    let sector = sectors.entry(command.at).or_default();
    if *sector != expect {
        return Outcome::Miscompare;
    }
    *sector = replace;
    Outcome::Good(Vec::new())
}

#[test]
fn machines_are_powered_on_under_locks_that_are_released() {
    let power = PowerOn::new(0, (0, 2), (1 << 20, 1 << 20), Locking::Ats, 3);
    let mut host = Host::new(Settings::default(), 1, vec![Box::new(power)], 1);
    let (mut sectors, mut refused) = (BTreeMap::from([(0, 9)]), 0);
    let seen = serve(&mut host, |command| {
        let outcome = locks(&mut sectors, command);
        refused += u64::from(outcome == Outcome::Miscompare);
        outcome
    });
    assert!(host.is_finished());
    assert_eq!(sectors, BTreeMap::from([(0, 9), (4096, 0)]), "the lock of another host stays");
    assert!(refused > 0);
    let ats = seen.iter().filter(|command| matches!(command.kind, Kind::Ats { .. })).count() as u64;
    assert_eq!(ats, 3 * 10 * 2 + refused);
}

#[test]
fn an_array_without_ats_is_locked_by_reservations() {
    let worlds: [Box<dyn World>; 2] = [
        Box::new(PowerOn::new(0, (0, 2), (1 << 20, 1 << 20), Locking::Ats, 1)),
        Box::new(Reclaim::new(0, 1 << 30..2 << 30, 200, 0)),
    ];
    for world in worlds {
        let mut host = Host::new(Settings::default(), 1, vec![world], 1);
        let seen = serve(&mut host, |command| match command.kind {
            Kind::Ats { .. } => Outcome::Unsupported,
            _ => Outcome::Good(Vec::new()),
        });
        let count = |kind: &Kind| seen.iter().filter(|command| command.kind == *kind).count();
        assert!(host.is_finished() && !host.has_failed());
        assert!(count(&Kind::Reserve) > 1 && count(&Kind::Reserve) == count(&Kind::Release));
        assert_eq!(host.figures().sum().offloaded[1].failed, 1);
    }
}

#[test]
fn space_is_reclaimed_in_passes() {
    let passes = |blocks| {
        let reclaim = Reclaim::new(0, 1 << 30..2 << 30, blocks, 0);
        let mut host = Host::new(Settings::default(), 1, vec![Box::new(reclaim)], 1);
        let mut sectors = BTreeMap::new();
        let seen = serve(&mut host, |command| locks(&mut sectors, command));
        assert!(host.is_finished());
        let unmapped: u64 = seen.iter().filter(|it| it.kind == Kind::Unmap).map(|it| it.bytes).sum();
        assert_eq!(unmapped, 1 << 30);
        seen.len()
    };
    assert!(passes(200) < passes(20));
    assert_eq!(Reclaim::recommended(40_000, 100 << 30, 1 << 40), 200, "three quarters full");
    assert_eq!(Reclaim::recommended(40_000, 1 << 40, 1 << 40), 10_485, "1 % of what is free");
    assert_eq!(Reclaim::recommended(500, 1 << 40, 1 << 40), 500);
}

#[test]
fn the_same_seed_sends_the_same_commands() {
    let run = |seed| {
        let access = Access { bytes: 8192, read: 60, random: 50, weight: 1 };
        let mix = |disk| -> Box<dyn World> {
            Box::new(Mix::new(disk, 0..64 << 20, 8, vec![access.clone()], Content::Half).paced(
                0,
                0,
                Some(200),
            ))
        };
        let mut host = Host::new(Settings::default(), 2, vec![mix(0), mix(1)], seed);
        serve(&mut host, |_| Outcome::Good(Vec::new()))
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn the_batch_file_has_a_line_for_each_sample() {
    let access = Access { bytes: 4096, read: 100, random: 100, weight: 1 };
    let mix = Mix::new(0, 0..1 << 20, 1, vec![access], Content::Half).paced(50_000_000, 0, Some(20));
    let mut host = Host::new(Settings::default(), 1, vec![Box::new(mix)], 1);
    serve(&mut host, |_| Outcome::Good(Vec::new()));
    let csv = host.figures().csv("lab");
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), host.figures().samples.len() + 1);
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
    assert!(lines[0].starts_with("\"(PDH-CSV 4.0)") && lines[0].contains("Average Kernel MilliSec/Command"));
}

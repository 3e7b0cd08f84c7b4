use super::*;
use std::time::Duration;

const DAY: u64 = 86_400;
const NOW: u64 = 20_000 * DAY;

fn moment(wall: u64, boot: u128, since: u64) -> Moment {
    Moment { wall, uptime: Uptime { boot, since: Duration::from_secs(since) } }
}

fn again(clock: &Clock, stop: &Moment, start: &Moment) -> Clock {
    Clock::resume(Some(clock.entry(stop)), start)
}

#[test]
fn it_never_runs_faster_than_the_uptime_of_the_machine() {
    let mut clock = Clock::resume(None, &moment(NOW, 1, 100));
    let later = moment(NOW + 50, 1, 150);
    assert!(!clock.look(&later));
    assert_eq!(clock.retention(&later), NOW + 50);
    for wall in [NOW + 30 * DAY, NOW - 30 * DAY, 0, u64::MAX] {
        let jumped = moment(wall, 1, 160);
        assert!(clock.look(&jumped), "{wall}");
        assert_eq!(clock.retention(&jumped), NOW + 60);
        let much_later = moment(wall.saturating_add(DAY), 1, 160 + DAY);
        clock.look(&much_later);
        assert_eq!(clock.retention(&much_later), NOW + 60, "it stands still");
        assert_eq!(clock.schedule(&much_later), NOW + 60 + DAY, "schedules go on");
        let right = moment(NOW + 60, 1, 160);
        assert!(clock.look(&right));
        assert_eq!((clock.retention(&right), clock.ahead(&right)), (NOW + 60, None));
    }
}

#[test]
fn small_steps_add_up_to_a_jump() {
    let mut clock = Clock::resume(None, &moment(NOW, 1, 0));
    let steps = (1..100).find(|step| clock.look(&moment(NOW + step * 61, 1, *step)));
    assert_eq!(steps, Some(6), "more than 300 seconds apart");
}

#[test]
fn a_restart_of_the_process_continues_from_the_uptime() {
    let mut clock = Clock::resume(None, &moment(NOW, 1, 100));
    clock.look(&moment(NOW + 10, 1, 110));
    let stop = moment(NOW + 10, 1, 110);
    let start = moment(NOW + 3 * DAY, 1, 110 + 3 * DAY);
    assert_eq!(again(&clock, &stop, &start).retention(&start), NOW + 10 + 3 * DAY);
    let lie = moment(NOW + 30 * DAY, 1, 120);
    let clock = again(&clock, &stop, &lie);
    assert_eq!(clock.retention(&lie), NOW + 20);
    assert!(clock.ahead(&lie).is_some());
}

#[test]
fn over_reboots_the_time_of_day_is_trusted_for_a_day_in_total() {
    let mut clock = Clock::resume(None, &moment(NOW, 1, 100));
    let mut wall = NOW;
    for boot in 2..6 {
        let start = moment(wall + 6 * 3600, boot, 0);
        clock = again(&clock, &moment(wall, boot - 1, 100), &start);
        wall += 6 * 3600;
        assert_eq!(clock.ahead(&start), None, "{boot}");
        clock = Clock { from: ClockEntry { uptime: 100, ..clock.from }, ..clock };
    }
    let start = moment(wall + 6 * 3600, 7, 0);
    let spent = again(&clock, &moment(wall, 5, 100), &start);
    assert_eq!((spent.retention(&start), spent.ahead(&start)), (wall, Some(6 * 3600)));
    // After a day that was measured it is trusted for a day again.
    let start = moment(wall + DAY + 6 * 3600, 7, 0);
    let earned = again(&clock, &moment(wall + DAY, 5, 100 + DAY), &start);
    assert_eq!((earned.retention(&start), earned.ahead(&start)), (wall + DAY + 6 * 3600, None));
    let long = moment(wall + 3 * DAY, 8, 0);
    assert_eq!(again(&clock, &moment(wall, 5, 100), &long).retention(&long), wall);
    let back = moment(wall - DAY, 8, 0);
    let back_then = again(&clock, &moment(wall, 5, 100), &back);
    assert_eq!((back_then.retention(&back), back_then.ahead(&back)), (wall, Some(-(DAY as i64))));
}

#[test]
fn a_machine_restored_to_an_earlier_moment_counts_as_a_reboot() {
    let clock = Clock::resume(None, &moment(NOW, 1, 1000));
    let stop = moment(NOW + 5000, 1, 6000);
    let start = moment(NOW + 5600, 1, 2000);
    assert_eq!(again(&clock, &stop, &start).retention(&start), NOW + 5600);
}

#[test]
fn a_confirmed_time_is_used() {
    let mut clock = Clock::resume(None, &moment(NOW, 1, 0));
    for wall in [NOW + 30 * DAY, NOW - 30 * DAY] {
        let jumped = moment(wall, 1, 10);
        clock.look(&jumped);
        clock.confirm(&jumped);
        let later = moment(wall + 5, 1, 15);
        assert!(!clock.look(&later));
        assert_eq!((clock.retention(&later), clock.ahead(&later)), (wall + 5, None));
    }
}

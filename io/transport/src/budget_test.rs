use super::*;

const LOGIN_GUARANTEE_BYTES: u64 = 128 << 10;
const SESSION_GUARANTEE_BYTES: u64 = 512 << 10;
const SESSION_TOTAL_GUARANTEE_BYTES: u64 = 736 << 10;
const SESSION: Guarantee =
    Guarantee { total_bytes: SESSION_TOTAL_GUARANTEE_BYTES, covered_bytes: SESSION_GUARANTEE_BYTES };

const MIB: u64 = 1 << 20;

/// A budget whose pool has this many MiB for draws in addition to the shares of [`session`].
fn budget(mib: u64, sessions: u64) -> Arc<Budget> {
    let total =
        (mib * MIB + sessions * SESSION_TOTAL_GUARANTEE_BYTES) * HEADROOM_DIVISOR / (HEADROOM_DIVISOR - 1);
    Arc::new(Budget::new(total + HEADROOM_DIVISOR))
}

fn session(budget: &Arc<Budget>, initiator: &str) -> BudgetShare {
    let mut share = BudgetShare::unknown_host(budget.clone(), LOGIN_GUARANTEE_BYTES);
    assert!(share.open(&Owner::proved(initiator), SESSION));
    share
}

fn granted(share: &mut BudgetShare) -> bool {
    share.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn the_guarantee_takes_nothing_of_the_pool() {
    let budget = budget(10, 2);
    let [mut one, other] = ["one", "other"].map(|name| session(&budget, name));
    let before = budget.used();
    assert!(
        one.cover(SESSION_GUARANTEE_BYTES)
            && other.covers(SESSION_GUARANTEE_BYTES)
            && !other.covers(SESSION_GUARANTEE_BYTES + 1)
    );
    assert_eq!(budget.used(), before);
    assert!(one.cover(SESSION_GUARANTEE_BYTES + 1));
    assert_eq!(budget.used(), before + DRAW_STEP_BYTES);
    one.settle_all(0);
    assert_eq!(budget.used(), before);
}

#[test]
fn one_initiator_leaves_half_however_many_sessions_it_has() {
    let budget = budget(64, 9);
    let mut hogs: Vec<BudgetShare> = (0..8).map(|_| session(&budget, "hog")).collect();
    let mut held = 0;
    for _ in 0..20 {
        for hog in &mut hogs {
            let more = hog.drawn + MIB + SESSION_GUARANTEE_BYTES;
            held += if hog.cover(more) { MIB } else { 0 };
        }
    }
    assert_eq!(held, 32 * MIB);
    let mut other = session(&budget, "other");
    assert!(other.cover(SESSION_GUARANTEE_BYTES + 32 * MIB));
    assert!(!other.cover(SESSION_GUARANTEE_BYTES + 33 * MIB));
}

#[test]
fn draws_that_wait_are_served_in_order_and_small_ones_do_not_overtake() {
    let budget = budget(64, 4);
    let mut hogs = ["a", "b"].map(|name| session(&budget, name));
    for hog in &mut hogs {
        assert!(hog.cover(SESSION_GUARANTEE_BYTES + 20 * MIB));
    }
    let mut large = session(&budget, "large");
    assert!(!large.cover(SESSION_GUARANTEE_BYTES + 32 * MIB));
    assert_eq!(large.wait_for(SESSION_GUARANTEE_BYTES + 32 * MIB), Ok(()));
    assert!(!granted(&mut large));
    let mut small = session(&budget, "small");
    assert!(!small.cover(SESSION_GUARANTEE_BYTES + MIB), "it would take what the other waits for");
    assert!(!hogs[0].cover(SESSION_GUARANTEE_BYTES + 21 * MIB));
    assert_eq!(small.wait_for(SESSION_GUARANTEE_BYTES + MIB), Ok(()));
    hogs[0].settle(0);
    assert!(granted(&mut large) && granted(&mut small));
    assert!(large.covers(SESSION_GUARANTEE_BYTES + 32 * MIB) && small.covers(SESSION_GUARANTEE_BYTES + MIB));
}

#[test]
fn an_initiator_above_its_share_does_not_keep_others_waiting() {
    let budget = budget(64, 2);
    let mut hog = session(&budget, "hog");
    assert!(hog.cover(SESSION_GUARANTEE_BYTES + 32 * MIB));
    assert_eq!(hog.wait_for(SESSION_GUARANTEE_BYTES + 40 * MIB), Ok(()));
    assert!(!granted(&mut hog));
    let mut other = session(&budget, "other");
    assert!(other.cover(SESSION_GUARANTEE_BYTES + 8 * MIB));
    hog.stop_waiting();
    assert!(!hog.waits() && !budget.is_contended());
}

#[test]
fn a_surplus_goes_back_at_once_when_somebody_waits_and_with_its_session() {
    let budget = budget(8, 3);
    let mut one = session(&budget, "one");
    assert!(one.cover(SESSION_GUARANTEE_BYTES + 3 * MIB));
    one.settle(SESSION_GUARANTEE_BYTES);
    assert!(one.covers(SESSION_GUARANTEE_BYTES + 3 * MIB), "kept while no one waits");
    let mut other = session(&budget, "other");
    assert_eq!(other.wait_for(SESSION_GUARANTEE_BYTES + 8 * MIB), Ok(()));
    assert!(budget.is_contended() && one.blocks_others());
    one.settle(SESSION_GUARANTEE_BYTES + MIB);
    assert!(!granted(&mut other));
    drop(one);
    assert!(granted(&mut other));
    let mut third = session(&budget, "third");
    assert_eq!(third.wait_for(SESSION_GUARANTEE_BYTES + MIB), Ok(()));
    drop(other);
    drop(third);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_draw_that_can_never_be_is_refused() {
    let budget = budget(8, 1);
    let mut one = session(&budget, "one");
    assert_eq!(one.wait_for(SESSION_GUARANTEE_BYTES + 9 * MIB), Err(ExceedsPool));
    assert!(!one.waits());
}

#[test]
fn there_are_no_more_sessions_than_guarantees() {
    let budget = Arc::new(Budget::new(10 * SESSION_TOTAL_GUARANTEE_BYTES));
    let sessions: Vec<BudgetShare> = (0..9).map(|_| session(&budget, "one")).collect();
    let mut unauthenticated: Vec<BudgetShare> =
        (0..2).map(|_| BudgetShare::unknown_host(budget.clone(), LOGIN_GUARANTEE_BYTES)).collect();
    assert!(!unauthenticated[0].open(&Owner::proved("one"), SESSION));
    assert!(budget.used() <= 10 * SESSION_TOTAL_GUARANTEE_BYTES);
    assert!(!unauthenticated[1].cover(1), "a connection that has not logged in draws nothing");
    drop(sessions);
    assert!(unauthenticated[0].open(&Owner::proved("one"), SESSION));
}

#[test]
fn a_grant_wakes_its_waiter() {
    struct Flag(AtomicBool);
    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let budget = budget(8, 2);
    let mut one = session(&budget, "one");
    assert!(one.cover(SESSION_GUARANTEE_BYTES + 8 * MIB));
    let mut other = session(&budget, "other");
    assert_eq!(other.wait_for(SESSION_GUARANTEE_BYTES + MIB), Ok(()));
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    assert!(other.poll(&mut Context::from_waker(&Waker::from(flag.clone()))).is_pending());
    one.settle_all(0);
    assert!(flag.0.load(Ordering::Relaxed));
    assert!(granted(&mut other));
}

#[test]
fn a_guarantee_alone_never_draws() {
    let budget = budget(10, 1);
    let mut stranger = BudgetShare::unknown_host(budget.clone(), LOGIN_GUARANTEE_BYTES);
    assert!(stranger.guarantee(SESSION));
    let before = budget.used();
    assert!(stranger.cover(SESSION_GUARANTEE_BYTES));
    assert!(!stranger.cover(SESSION_GUARANTEE_BYTES + 1));
    assert_eq!(stranger.wait_for(SESSION_GUARANTEE_BYTES + 1), Err(ExceedsPool), "it would wait forever");
    assert_eq!((budget.used(), budget.is_contended()), (before, false));
}

#[test]
fn who_only_claims_a_name_takes_nothing_of_its_owner() {
    let address = |last: u8| Owner::address(IpAddr::from([10, 0, 0, last]));
    assert_ne!(Owner::proved("iqn.2026-01.test:host"), address(1));
    assert_ne!(address(1), address(2));
    let network = |low: u16| Owner::address(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, low]));
    assert_eq!(network(1), network(2));
}

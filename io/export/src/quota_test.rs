use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

fn quota(limit: u64) -> (Arc<Quota>, Arc<AtomicU64>) {
    let mapped = Arc::new(AtomicU64::new(0));
    let counted = mapped.clone();
    let quota = Quota::new(limit, Arc::new(move |_| counted.load(Ordering::SeqCst)), BTreeSet::new());
    (quota, mapped)
}

#[test]
fn concurrent_operations_never_exceed_the_quota_and_can_use_all_of_it() {
    let (quota, mapped) = quota(1000);
    let max_mapped = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // Every second operation writes to blocks that are already mapped.
                for iteration in 0..20_000 {
                    let Some(_grant) = quota.grant_upper_bound(3).or_else(|| quota.grant_exact(3).ok())
                    else {
                        continue;
                    };
                    if iteration % 2 == 0 {
                        max_mapped.fetch_max(mapped.fetch_add(3, Ordering::SeqCst) + 3, Ordering::SeqCst);
                    }
                    if iteration % 50 == 0 {
                        mapped.fetch_sub(mapped.load(Ordering::SeqCst).min(3), Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!(max_mapped.load(Ordering::SeqCst) <= 1000);
    mapped.store(0, Ordering::SeqCst);
    assert!(quota.refresh().operations > 0);
    let grants: Vec<_> = std::iter::from_fn(|| quota.grant_upper_bound(3)).collect();
    assert_eq!(grants.len(), 333, "no granted byte leaked");
}

#[test]
fn operations_that_map_nothing_new_cause_no_recount() {
    let (quota, mapped) = quota(100);
    mapped.store(99, Ordering::SeqCst);
    let _one = quota.grant_upper_bound(1).expect("there is room");
    assert!(quota.grant_upper_bound(1).is_none());
    mapped.store(0, Ordering::SeqCst);
    assert!(quota.grant_upper_bound(1).is_none(), "nothing was taken since the count");
    assert!(quota.grant_exact(0).is_ok());
    assert!(quota.grant_exact(99).is_ok(), "this one recounts");
    quota.set(50, Arc::new(|_| 20));
    assert!(quota.grant_upper_bound(30).is_none(), "one byte is in flight");
    assert!(quota.grant_upper_bound(29).is_some());
}

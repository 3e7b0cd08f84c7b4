use super::*;
use crate::memory::Cluster;
use shelf::arbiter::Arbiter as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the model answers at once"),
    }
}

/// Controllers over the model of RADOS.
#[derive(Default)]
struct Subject(Cluster);

impl shelf::conformance::arbiter::Subject for Subject {
    fn clear(&mut self) {
        self.0 = Cluster::default();
    }

    fn arbiter(&mut self, _member: MemberId) -> Result<Arc<dyn shelf::arbiter::Arbiter>> {
        Ok(now(Arbiter::new(self.0.client()))?)
    }

    fn finish<T>(&mut self, operation: BoxFuture<'static, Result<T>>) -> Result<T> {
        now(operation)
    }
}

#[test]
fn it_is_an_arbiter() {
    shelf::conformance::arbiter::run(&mut Subject::default()).unwrap();
}

#[test]
fn signs_that_are_damaged_are_refused_and_foreign_attributes_ignored() {
    let mut signs = Signs::new();
    for (name, value) in [("b", ""), ("c.0001", "?"), ("owner", "1"), ("b.zz", "?")] {
        add_sign(&mut signs, name, value).unwrap();
    }
    for (name, value) in [("b.0001", "12"), ("b.0001", "é"), ("x.0001", ""), ("x.0001", "é")] {
        assert!(matches!(add_sign(&mut signs, name, value), Err(Error::Corrupt { .. })), "{name} {value}");
    }
}

#[test]
fn a_namespace_is_shared_from_the_first_map_on() {
    let objects = Cluster::default().client();
    let arbiter = now(Arbiter::new(objects.clone())).unwrap();
    assert!(!now(is_shared(&*objects)).unwrap(), "beats alone say nothing");
    assert!(now(arbiter.replace(None, 1, Bytes::from_static(b"map"))).unwrap());
    assert!(now(is_shared(&*objects)).unwrap());
}

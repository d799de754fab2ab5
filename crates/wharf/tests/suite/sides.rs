//! Devices whose receive side is a device of its own, and devices that come back in another mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use wharf::device::{AnyDevice, Device, DeviceError, Frame, Kind, Notify, Opened, Region, Registry};
use wharf::device::{Batch, Cache, RxDevice, TxDevice, delegate};
use wharf::queue::{PoolError, QueueError, Rest};
use wharf::{Direction, Event, PagePool, Port};
use wharf_devices::null::Null;
use wharf_testkit::threads::eventually;

const SECOND: Duration = Duration::from_secs(1);

/// Receives nothing, and cannot use memory so many times.
struct Silent(u32);

impl Notify for Silent {}

impl Device for Silent {
    fn name(&self) -> String {
        "silent".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        if self.0 == 0 {
            return Ok(());
        }
        self.0 -= 1;
        Err(DeviceError::Unsupported { device: self.name(), what: "it wants other memory".into() })
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Silent {
    fn receive(&mut self, _: &mut Cache, _: &mut Batch, _budget: usize) -> Result<usize, DeviceError> {
        Ok(0)
    }
}

#[test]
fn device_with_a_receive_side_of_its_own_then_both_are_wrapped() {
    let device = Opened { receiving: Some(Box::new(Silent(0))), ..Opened::tx(Null::default()) };
    let wrapped = Arc::new(AtomicUsize::new(0));
    let wraps = wrapped.clone();
    let builder = Port::builder_over(vec![device], Direction::Both).wrap(move |device| {
        wraps.fetch_add(if device.as_rx().is_some() { 10 } else { 1 }, SeqCst);
        device
    });
    drop(builder.build().unwrap());
    assert_eq!(wrapped.load(SeqCst), 11);
}

#[test]
fn device_that_cannot_use_memory_then_the_next_receiver_has_it() {
    let builder = |refusals| {
        let device = Opened { receiving: Some(Box::new(Silent(refusals))), ..Opened::tx(Null::default()) };
        Port::builder_over(vec![device], Direction::Both)
    };
    let port = builder(2).build().unwrap();
    for error in [port.receiver().unwrap_err(), port.on_receive(|_| Rest::Free).unwrap_err()] {
        assert!(error.to_string().ends_with("other memory"), "{error}");
    }
    drop(port.served_receiver().unwrap());

    // A pool that has no cache left.
    let pool = PagePool::builder().frames(16).build().unwrap();
    let port = builder(0).pool(&pool).build().unwrap();
    let mut caches: Vec<_> = std::iter::from_fn(|| pool.cache("test").ok()).collect();
    assert!(matches!(port.receiver().unwrap_err(), QueueError::Pool(PoolError::Caches)));
    caches.truncate(8);
    drop(port.receiver().unwrap());
    let _all: Vec<_> = std::iter::from_fn(|| pool.cache("test").ok()).collect();
    assert!(matches!(port.receiver().unwrap_err(), QueueError::Pool(PoolError::Caches)), "it has its memory");
    caches.clear();
    drop(port.receiver().unwrap());
}

/// Sends in a mode.
struct Moded {
    inner: Null,
    mode: &'static str,
}

impl Notify for Moded {}

impl Device for Moded {
    delegate!(inner: name, mode_reason, facts, set_line, attach, visit, close, link);

    fn mode(&self) -> Option<&'static str> {
        Some(self.mode)
    }
}

impl TxDevice for Moded {
    delegate!(inner: info, transmit, flush, reap, outstanding, next_completion_ns, set_patience);
}

static OPENINGS: AtomicUsize = AtomicUsize::new(0);
static MODED: Kind = Kind::new("moded", "moded:NAME", "a device of the test's own", |_, _| {
    let mode = if OPENINGS.fetch_add(1, SeqCst) == 0 { "zero-copy" } else { "copy" };
    Ok(vec![Opened::new(AnyDevice::tx(Moded { inner: Null::default(), mode }))])
})
.interface("NAME");

#[test]
fn device_that_comes_back_in_another_mode_then_a_snapshot_has_that() {
    let registry = Registry::default().with(&MODED).unwrap();
    let port = Port::builder("moded:one", Direction::Send).registry(registry).build().unwrap();
    assert_eq!(port.snapshot().mode, Some("zero-copy"));
    let mut events = port.events().unwrap();
    port.reopen().unwrap();
    while !matches!(events.wait(10 * SECOND).expect("an event"), Event::Reopened { .. }) {}
    eventually(10 * SECOND, || port.snapshot().mode == Some("copy"));
}

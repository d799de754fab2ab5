//! Devices that are opened anew, driven by hand.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use wharf_core::device::{Completions, Device, DeviceError, Notify, RxDevice, TxDevice};
use wharf_core::pool::Cache;
use wharf_devices::null::Null;
use wharf_devices::registry::Registry;
use wharf_devices::reopen::{Change, OnGone, Reopener};
use wharf_devices::spec::{Can, Direction, Kind, Opened, Place};
use wharf_mem::{Batch, Frame, Region};
use wharf_testkit::threads::eventually;

const SOON: Duration = Duration::from_secs(20);
/// Set in the process of a test that lowers the process's limits.
const CHILD: &str = "WHARF_REOPEN_CHILD";

/// Opens `spec`, with a pool's memory. Returns it with its reopener, and the number of times that it was opened again.
fn open(spec: &str) -> (Box<dyn TxDevice>, Arc<Reopener>, Arc<AtomicUsize>) {
    let spec = Registry::default().parse_for(spec, Direction::Send).unwrap();
    let mut opened = spec.open(Direction::Send).unwrap();
    let around = Reopener::around(&spec, Direction::Send.into(), OnGone::Wait, &mut opened);
    let (reopener, count) = (around.unwrap().expect("it has a place"), Arc::new(AtomicUsize::new(0)));
    let counts = count.clone();
    reopener.observe(move |change| {
        if matches!(change, Change::Reopened { .. }) {
            counts.fetch_add(1, SeqCst);
        }
    });
    let mut device: Box<dyn TxDevice> = opened.remove(0).device.into_tx().unwrap();
    device.attach(wharf_testkit::pool(16).region().clone()).unwrap();
    (device, reopener, count)
}

fn poll(device: &mut dyn TxDevice) {
    device.reap(1, true, &mut Completions::new(1)).unwrap();
}

/// Polls `device` until it was opened again `times` times.
fn poll_until(device: &mut dyn TxDevice, count: &AtomicUsize, times: usize) {
    eventually(SOON, || {
        poll(device);
        count.load(SeqCst) >= times
    });
    poll(device);
}

#[test]
fn reset_before_the_new_device_is_taken_replaces_it_too() {
    let (mut device, reopener, count) = open("udp:127.0.0.1:9");
    let (first, again): (_, Weak<Reopener>) = (AtomicBool::new(true), Arc::downgrade(&reopener));
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    reopener.observe(move |change| {
        tells.lock().unwrap().push(matches!(change, Change::Reset));
        if matches!(change, Change::Reopened { .. }) && first.swap(false, SeqCst) {
            // The device has been opened, and its side has not taken it yet.
            again.upgrade().unwrap().reset();
        }
    });
    reopener.reset();
    // This poll closes it. The next one waits for the observers.
    poll(&mut *device);
    eventually(SOON, || count.load(SeqCst) >= 1);
    poll_until(&mut *device, &count, 2);
    assert!(reopener.away().is_none());
    assert_eq!(*told.lock().unwrap(), [true, false, true, false]);
}

#[test]
fn reset_of_which_an_observer_hears_slowly_then_it_is_told_before_the_end() {
    let (mut device, reopener, count) = open("udp:127.0.0.1:9");
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    reopener.observe(move |change| {
        if matches!(change, Change::Reset) {
            std::thread::sleep(Duration::from_millis(300));
        }
        tells.lock().unwrap().push(matches!(change, Change::Reset));
    });
    std::thread::scope(|scope| {
        scope.spawn(|| reopener.reset());
        poll_until(&mut *device, &count, 1);
    });
    assert_eq!(*told.lock().unwrap(), [true, false]);
}

#[test]
fn side_that_has_closed_its_device_late_then_the_next_reset_waits_for_it_again() {
    let (mut device, reopener, count) = open("udp:127.0.0.1:9");
    let away = Arc::new(Mutex::new(Vec::new()));
    let tells = away.clone();
    reopener.observe(move |change| {
        if let Change::Reopened { after } = change {
            tells.lock().unwrap().push(*after);
        }
    });
    // It is not polled, and the device is opened without it: each time after the time in which it was to close its own.
    for times in 1..=2 {
        reopener.reset();
        eventually(SOON, || count.load(SeqCst) >= times);
        poll_until(&mut *device, &count, times);
    }
    let away = away.lock().unwrap();
    assert!(away.iter().all(|&away| away >= Duration::from_secs(1)), "its device is open: {away:?}");
}

/// A receive side that says whether it had memory when it was polled.
#[derive(Default)]
struct Receives {
    has_memory: bool,
}

static POLLED_WITH_MEMORY: Mutex<Option<bool>> = Mutex::new(None);

impl Notify for Receives {}

impl Device for Receives {
    fn name(&self) -> String {
        "receives".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        self.has_memory = true;
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl RxDevice for Receives {
    fn receive(&mut self, _: &mut Cache, _: &mut Batch, _budget: usize) -> Result<usize, DeviceError> {
        *POLLED_WITH_MEMORY.lock().unwrap() = Some(self.has_memory);
        Ok(0)
    }
}

static APART: Kind = Kind {
    place: Place::Interface("NAME"),
    can: Can::BOTH,
    ..Kind::new("apart", "apart:NAME", "a device of the test's own", |_, _| {
        let receiving = Some(Box::<Receives>::default() as Box<dyn RxDevice>);
        Ok(vec![Opened { receiving, ..Opened::tx(Null::default()) }])
    })
};

#[test]
fn side_that_has_memory_only_as_devices_are_handed_out_then_its_device_has_it() {
    let registry = Registry::default().with(&APART).unwrap();
    let spec = registry.parse_for("apart:one", Direction::Both).unwrap();
    let mut opened = spec.open(Direction::Both).unwrap();
    let around = Reopener::around(&spec, Direction::Both.into(), OnGone::Wait, &mut opened);
    let (reopener, opened, pool) = (around.unwrap().unwrap(), opened.remove(0), wharf_testkit::pool(16));
    let mut device: Box<dyn TxDevice> = opened.device.into_tx().unwrap();
    device.attach(pool.region().clone()).unwrap();
    let receiving = Arc::new(Mutex::new(opened.receiving.unwrap()));
    let (late, region) = (receiving.clone(), pool.region().clone());
    let count = Arc::new(AtomicUsize::new(0));
    let counts = count.clone();
    reopener.observe(move |change| {
        if matches!(change, Change::Reopened { .. }) {
            counts.fetch_add(1, SeqCst);
            late.lock().unwrap().attach(region.clone()).unwrap();
        }
    });
    reopener.reset();
    let (mut cache, mut batch) = (pool.cache("test").unwrap(), Batch::new(1));
    eventually(SOON, || {
        poll(&mut *device);
        if reopener.away().is_none() {
            receiving.lock().unwrap().receive(&mut cache, &mut batch, 1).unwrap();
        }
        reopener.away().is_none() && POLLED_WITH_MEMORY.lock().unwrap().is_some()
    });
    assert_eq!((*POLLED_WITH_MEMORY.lock().unwrap(), count.load(SeqCst)), (Some(true), 1));
}

/// Runs `body` with a limit of no descriptors.
fn without_descriptors(body: impl FnOnce()) {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let set = |limit: libc::rlimit| {
        // SAFETY: the kernel reads a structure that lives as long as the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    };
    // SAFETY: the kernel writes a structure that lives as long as the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before) }, 0);
    set(libc::rlimit { rlim_cur: 0, ..before });
    body();
    set(before);
}

#[test]
#[ignore = "wants root"]
fn limit_of_descriptors_below_those_in_use_then_it_is_opened_once_that_is_over() {
    if std::env::var(CHILD).is_err() {
        let name = "reopen::limit_of_descriptors_below_those_in_use_then_it_is_opened_once_that_is_over";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.args([name, "--exact", "--ignored", "--nocapture"]).env(CHILD, "1");
        return assert!(child.status().unwrap().success());
    }
    wharf_sys::namespace::enter_new_network().expect("wants root");
    // An interface that one file alone may have.
    let (mut device, reopener, count) = open("tap:t0");
    let fails = Arc::new(AtomicBool::new(false));
    let failed = fails.clone();
    reopener.observe(move |change| failed.store(matches!(change, Change::NotYet(_)), SeqCst));
    without_descriptors(|| {
        reopener.reset();
        eventually(SOON, || {
            poll(&mut *device);
            fails.load(SeqCst)
        });
        assert_eq!(count.load(SeqCst), 0);
    });
    poll_until(&mut *device, &count, 1);
    assert!(reopener.away().is_none());
}

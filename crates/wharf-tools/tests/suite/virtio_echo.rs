//! Our own driver over our own device: `virtio-user` sends by a queue, `vhost-user` sends everything back, and each packet
//! is checked; whichever of the two listens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::spawn;
use std::time::Duration;
use wharf::{Direction, Owners, Port};
use wharf_core::device::{Completions, Device, DeviceError, RxDevice, TxDevice, close_receiver};
use wharf_devices::vhost_user::{VhostUser, VhostUserOptions};
use wharf_mem::Batch;
use wharf_testkit::threads::{eventually, within_a_minute};
use wharf_testkit::{Scratch, assert_conserved, pool};
use wharf_tools::traffic::{Drive, Echo, GeneratorSpec, Pace, Sizes, StampCheck};

const PACKETS: u64 = 20_000;
const LONG: Duration = Duration::from_secs(50);

/// Waits until a socket is at `path`.
fn listened(path: &Path) {
    eventually(LONG, || path.exists());
}

/// A device at `path` that sends back what comes, until it is told to stop.
fn switch(path: &Path, client: bool, stop: &AtomicBool) {
    if client {
        listened(path);
    }
    let open = || VhostUser::open(path, VhostUserOptions { client, ..VhostUserOptions::default() });
    // The socket is there a moment before the driver listens.
    let refused = |error: &DeviceError| error.to_string().contains("no driver listens there");
    let mut opened = open();
    eventually(LONG, || {
        let is_refused = opened.as_ref().is_err_and(refused);
        if is_refused {
            opened = open();
        }
        !is_refused
    });
    let mut device = opened.unwrap();
    let pool = pool(1024);
    device.attach(pool.region().clone()).unwrap();
    let (mut cache, mut batch) = (pool.cache("switch").unwrap(), Batch::new(64));
    let mut done = Completions::new(256);
    while !stop.load(Relaxed) {
        if batch.is_empty() {
            device.receive(&mut cache, &mut batch, 64).unwrap();
        }
        device.transmit(&mut batch, false);
        device.reap(256, false, &mut done).unwrap();
        cache.give(&mut done.sent).unwrap();
    }
    cache.give(&mut batch).unwrap();
    close_receiver(&mut device, &mut cache).unwrap();
    assert_eq!(pool.audit().out(), 0);
}

/// Sends generated packets by the device of `spec`; all come back, as they were sent and in order.
fn echoed(spec: &str) {
    let pool = pool(1024);
    let port = Port::builder(spec, Direction::Both).pool(&pool).takes_chains(true).owners(Owners::Senders);
    let port = port.build().unwrap();
    let generators = GeneratorSpec { sizes: Sizes::Imix, ..GeneratorSpec::default() }.generators().unwrap();
    let echo = Echo::new(&port, Box::new(StampCheck::new(generators.clone()))).unwrap();
    let stop = AtomicBool::new(false);
    let drive = Drive { pace: Pace::default(), ..Drive::top_speed(32, &stop) };
    let mut sender = port.sender("test").unwrap();
    let mut generator = generators[0].clone().ending_after(PACKETS);
    assert_eq!(drive.run(&mut sender, &mut generator).unwrap().packets, PACKETS);
    drop(sender);
    eventually(LONG, || echo.packets() >= PACKETS);
    let (findings, error) = echo.finish();
    assert_eq!((findings.packets, findings.errors), (PACKETS, 0), "{:?}", findings.first_error);
    assert!(error.is_none(), "{error:?}");
    port.close(Duration::ZERO);
    assert_conserved(port.queue().unwrap());
}

fn both(name: &str, keys: &'static str, driver_listens: bool) {
    let socket = Scratch::new(name);
    let path: PathBuf = socket.path();
    within_a_minute(move || {
        let (stop, theirs) = (Arc::new(AtomicBool::new(false)), path.clone());
        let stops = stop.clone();
        let switch = spawn(move || switch(&theirs, driver_listens, &stops));
        if !driver_listens {
            listened(&path);
        }
        echoed(&format!("virtio-user:{}{keys}", path.display()));
        stop.store(true, Relaxed);
        switch.join().unwrap();
    });
}

#[test]
fn sent_frames_come_back_by_either_ring_layout() {
    both("ours-split", "", false);
    both("ours-split-any", ",in_order=off", false);
    both("ours-split-plain", ",offload=off", false);
    both("ours-split-in-place", ",copy=off", false);
    both("ours-packed-in-place", ",packed=on,copy=off", false);
    both("ours-packed", ",packed=on,in_order=on", false);
    both("ours-packed-any", ",packed=on,in_order=off", false);
}

#[test]
fn the_driver_may_listen_and_the_device_connect() {
    both("listens-split", ",server=on", true);
    both("listens-packed", ",server=on,packed=on", true);
}

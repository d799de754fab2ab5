//! Rings of `e1000` and `igb` whose descriptors and registers hold any bytes: frames or drops, each frame once, and no panic.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::device::{Completions, Device, RxDevice, TxDevice, close_receiver};
use wharf_core::pool::PagePool;
use wharf_intel::bus::Bus;
use wharf_intel::e1000::E1000;
use wharf_intel::family::Family;
use wharf_intel::igb::Igb;
use wharf_intel::{Port, PortOptions};
use wharf_mem::Batch;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};

const RING: u32 = 64;

/// Rings that are written by the input; registers read what the input says, or that the link is up.
#[derive(Debug, Clone, Default)]
struct Fuzzed(Arc<(Mutex<Vec<View>>, AtomicU64, AtomicU64)>);

impl Bus for Fuzzed {
    fn read(&self, at: u32) -> u32 {
        // The status, or a bit that a set-up waits for.
        if at == 8 { 2 | self.0.1.load(Relaxed) as u32 } else { 1 << 9 | 1 << 28 }
    }

    fn write(&self, _at: u32, _value: u32) {}

    fn map(&self, mapping: &Mapping, _is_writable: bool) -> io::Result<u64> {
        let area = Arc::new(Area::of_peer(mapping.fd()?, mapping.len_bytes() as u64)?);
        self.0.0.lock().unwrap().extend(View::new(&area, 0, mapping.len_bytes()));
        Ok(self.0.2.fetch_add(1 << 32, Relaxed))
    }

    fn set_bus_master(&self, _is_on: bool) {}

    fn wait_fd(&self, _vector: u32) -> Option<RawFd> {
        None
    }

    fn take(&self, _vector: u32) -> bool {
        false
    }

    fn unmask(&self) {}

    fn pause(&self, _duration: Duration) {}

    fn is_requested(&self) -> bool {
        false
    }
}

fuzz_target!(|bytes: &[u8]| {
    let [which, bytes @ ..] = bytes else { return };
    if which & 1 == 0 { run::<E1000>(bytes) } else { run::<Igb>(bytes) }
});

/// Takes ten bytes at a time: what the driver does, a descriptor's place, and its second word.
fn run<F: Family>(bytes: &[u8]) {
    let pool = PagePool::builder().frames(256).build().unwrap();
    let mut cache = pool.cache("fuzz").unwrap();
    let bus = Fuzzed::default();
    let options = PortOptions { sends: true, receives: true, ring_entries: RING, mtu_bytes: 1500, promiscuous: true, queues: 1 };
    let mut port = Port::<F, Fuzzed>::open("fuzz", bus.clone(), &options).unwrap().pop().unwrap();
    port.attach(pool.region().clone()).unwrap();
    let (mut to, mut done) = (Batch::new(64), Completions::new(64));
    for step in bytes.chunks_exact(10) {
        let second = u64::from_le_bytes(step[2..].try_into().unwrap());
        // The pool's memory comes first, then the transmit ring, then the receive ring.
        let at = 1 + usize::from(step[0] >> 7);
        let place = (usize::from(step[1]) % RING as usize) * 16 + 8;
        bus.0.0.lock().unwrap()[at].store_u64_release(place, second);
        match step[0] % 5 {
            0 => {
                let mut batch = Batch::new(4);
                let _ = cache.take(&mut batch, 4, 60);
                port.transmit(&mut batch, second & 1 == 0);
                cache.give(&mut batch).unwrap();
            }
            1 => {
                let _ = port.reap(64, false, &mut done);
            }
            2 => {
                let _ = port.receive(&mut cache, &mut to, 64);
            }
            3 => bus.0.1.store(second, Relaxed),
            _ => drop(port.link()),
        }
        cache.give(&mut to).unwrap();
        cache.give(&mut done.sent).unwrap();
        done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    }
    close_receiver(&mut port, &mut cache).unwrap();
    while port.outstanding() > 0 {
        let _ = port.reap(64, true, &mut done);
        cache.give(&mut done.sent).unwrap();
        done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    }
    drop((port, cache));
    assert_eq!(pool.audit().out(), 0);
}

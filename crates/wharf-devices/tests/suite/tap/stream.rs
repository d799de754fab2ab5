//! TCP of the kernel's through two TAPs, one of them moved to another network, joined by hand.

use crate::net::{apart, enter};
use crate::supers::opened;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use wharf_core::device::{Completions, Device, Duplex, RxDevice, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_devices::open::{Direction, open};
use wharf_mem::{Batch, Meta};
use wharf_packet::gso::{GSO_TCPV4, GSO_UDP};
use wharf_testkit::packets::{cut, data};
use wharf_testkit::pool_of;
use wharf_testkit::threads::{eventually, within_a_minute};

/// Packets that are looked at closely: it takes long.
const LOOKED_AT_MAX: usize = 200;

/// Packets that have passed.
#[derive(Default)]
struct Passed {
    longest_bytes: usize,
    seen: Vec<(Vec<u8>, Meta)>,
}

/// One direction.
struct Way {
    batch: Batch,
    done: Completions,
}

impl Way {
    fn carry(
        &mut self, from: &mut dyn RxDevice, to: &mut dyn TxDevice, cache: &mut Cache, passed: &mut Passed,
    ) {
        from.receive(cache, &mut self.batch, 16).unwrap();
        let region = cache.pool().region().clone();
        for frame in self.batch.frames() {
            passed.longest_bytes = passed.longest_bytes.max(frame.len_bytes() as usize);
            if passed.seen.len() < LOOKED_AT_MAX {
                let bytes = region.chunks(frame).unwrap().flatten().copied().collect();
                passed.seen.push((bytes, region.meta(frame).unwrap()));
            }
        }
        while !self.batch.is_empty() {
            to.transmit(&mut self.batch, false);
            to.reap(256, false, &mut self.done).unwrap();
            assert!(self.done.failed.is_empty(), "{:?}", self.done.failed);
            cache.give(&mut self.done.sent).unwrap();
        }
    }
}

/// Joins the two until told to stop.
fn join(mut ends: [Box<dyn Duplex>; 2], pool: &PagePool, stop: &AtomicBool) -> Passed {
    let mut cache = pool.cache("test").unwrap();
    let mut passed = Passed::default();
    let mut ways = [0, 1].map(|_| Way { batch: Batch::new(64), done: Completions::new(256) });
    let [a, b] = &mut ends;
    while !stop.load(SeqCst) {
        ways[0].carry(&mut **a, &mut **b, &mut cache, &mut passed);
        ways[1].carry(&mut **b, &mut **a, &mut cache, &mut passed);
    }
    for end in &mut ends {
        end.drops(&mut |reason, count| assert_eq!(count, 0, "{reason}"));
    }
    assert_eq!(pool.audit().out(), 0);
    passed
}

/// Sends 4 MiB from one network to the other. Returns the packets that passed.
fn carries(
    options: &'static str, frames: u32, frame_bytes: u32, check: impl FnOnce(Passed) + Send + 'static,
) {
    within_a_minute(move || {
        enter();
        let pool = pool_of(frames, frame_bytes);
        let ends = ["t0", "t1"].map(|name| {
            let mut device =
                open(&format!("tap:{name}{options}"), Direction::Send).unwrap().device.into_duplex().unwrap();
            device.attach(pool.region().clone()).unwrap();
            device
        });
        let stop = Arc::new(AtomicBool::new(false));
        let (say, hear) = mpsc::channel();
        let until = stop.clone();
        let joining = thread::spawn(move || say.send(join(ends, &pool, &until)).unwrap());
        let near = || connect().write_all(&data(4 << 20)).unwrap();
        apart("t0", "t1", near, move || {
            let mut got = Vec::new();
            TcpListener::bind("10.9.0.2:5000").unwrap().accept().unwrap().0.read_to_end(&mut got).unwrap();
            assert!(got == data(4 << 20));
            stop.store(true, SeqCst);
            // The network goes with this thread, and the interface with it.
            check(hear.recv().unwrap());
        });
        joining.join().unwrap();
    });
}

/// Once the other side listens.
fn connect() -> TcpStream {
    let mut stream = None;
    eventually(Duration::from_secs(50), || {
        stream = TcpStream::connect("10.9.0.2:5000").ok();
        stream.is_some()
    });
    stream.unwrap()
}

/// Packets that the kernel left unfinished come with their requests.
fn are_super_packets(passed: Passed) {
    assert!(passed.longest_bytes > 2 * 1514, "{}", passed.longest_bytes);
    for (bytes, meta) in passed.seen {
        assert_eq!(bytes.len() > 1514, meta.gso_bytes > 0, "{meta:?}");
        if meta.gso_bytes > 0 {
            assert_eq!((meta.gso_kind, meta.needs_checksum), (GSO_TCPV4, true));
            assert_eq!((meta.checksum_start, meta.checksum_offset), (34, 16));
            cut(&bytes, &meta).iter().for_each(|segment| assert!(opened(segment).is_some()));
        } else if meta.needs_checksum {
            assert_ne!(meta.gso_kind, GSO_UDP);
        }
    }
}

#[test]
#[ignore = "wants root"]
fn super_packets_pass_whole_as_chains() {
    carries("", 4096, 1984, are_super_packets);
}

#[test]
#[ignore = "wants root"]
fn and_in_few_large_frames() {
    carries("", 64, 65_472, are_super_packets);
}

#[test]
#[ignore = "wants root"]
fn and_in_frames_too_short_for_their_headers() {
    carries("", 8192, 192, are_super_packets);
}

#[test]
#[ignore = "wants root"]
fn without_offloads_frames_are_as_on_a_wire() {
    carries(",offload=off", 1024, 1984, |passed| {
        assert!(passed.longest_bytes <= 1514);
        for (bytes, meta) in passed.seen {
            assert_eq!(meta, Meta::default());
            // Checksums are compared on the way.
            let _ = opened(&bytes);
        }
    });
}

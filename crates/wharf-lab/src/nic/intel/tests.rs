//! Both sides of each layout, bytes on the bus, hostile NICs.

use super::advanced::Advanced;
use super::driver::{Driver, Queues, Rings, Spec};
use super::formats::Report;
use super::legacy::Legacy;
use super::setup::{E1000, Family, IGB, IXGBE, Setup, build};
use super::{Descriptor, Layout, Received, ToSend};
use crate::engine::Random;
use crate::nic::NicDriver;
use crate::nic::buffers::Buffers;
use crate::nic::host::{HostMemory, SharedMemory, open};
use crate::nic::machine::{CoreCosts, Job};
use crate::nic::pair::Pair;
use crate::nic::port::{Arrivals, PortCosts};
use crate::nic::receive::ReceiveCosts;
use crate::nic::send::SendCosts;
use crate::pcie::BusSpec;
use proptest::prelude::*;
use wharf_core::device::{Completions, Device};
use wharf_core::pool::{Cache, PagePool};
use wharf_mem::Batch;

#[test]
fn descriptors_are_laid_out_as_the_data_sheets_say() {
    let what = ToSend { address: 0x1122_3344_5566_7788, len_bytes: 1514, last: true, report: true };
    let advanced = [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xea, 5, 0x30, 0x2b, 0, 0x80, 0x7a, 1];
    assert_eq!(Advanced::to_send(&what), advanced);
    let legacy = [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xea, 5, 0, 0x0b, 0, 0, 0, 0];
    assert_eq!(Legacy::to_send(&what), legacy);
    let packet = Received { len_bytes: 60, last: true, errors: 0 };
    let posted = Advanced::to_receive(what.address);
    assert_eq!(Advanced::received(&posted, &packet), [0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0]);
    let written = Legacy::received(&Legacy::to_receive(what.address), &packet);
    assert_eq!(written[8..], [60, 0, 0, 0, 3, 0, 0, 0]);
}

fn inverse<L: Layout>(what: &ToSend, packet: &Received) -> Result<(), TestCaseError> {
    let descriptor = L::to_send(what);
    prop_assert_eq!(L::read_to_send(&descriptor), Ok(*what));
    prop_assert!(!L::is_sent(&descriptor) && L::is_sent(&L::sent(&descriptor)));
    let posted = L::to_receive(what.address);
    prop_assert_eq!((L::read_to_receive(&posted), L::read_received(&posted)), (what.address, None));
    prop_assert_eq!(L::read_received(&L::received(&posted, packet)), Some(*packet));
    Ok(())
}

proptest! {
    #[test]
    fn reading_is_the_inverse_of_writing(
        address: u64, len_bytes in 1u32..1 << 16, last: bool, report: bool, errors in 0u32..256,
    ) {
        let packet = Received { len_bytes, last, errors };
        inverse::<Advanced>(&ToSend { address, len_bytes, last, report }, &packet)?;
        inverse::<Legacy>(&ToSend { address, len_bytes, last, report }, &packet)?;
    }

    #[test]
    fn any_bytes_are_something_or_an_error(bytes: Descriptor) {
        for read in [Advanced::read_to_send(&bytes), Legacy::read_to_send(&bytes)].into_iter().flatten() {
            prop_assert!((1..1 << 16).contains(&read.len_bytes));
        }
        let _ = (Advanced::read_received(&bytes), Legacy::read_received(&bytes));
    }
}

fn setup(family: Family, job: Job) -> Setup {
    let bus = BusSpec { link: "gen3x16".parse().unwrap(), tags: 256, latency_ps: 600_000 };
    let send = SendCosts {
        entry_ps: 0,
        fetch_bytes: 0,
        fetches: 4,
        wire_ps_per_byte: 80,
        wire_overhead_bytes: 20,
        ahead_ps: 2_000_000,
    };
    let receive = ReceiveCosts { buffer_bytes: 1 << 17, fetch_bytes: 0, keep_ps: 100_000_000 };
    let arrivals = if matches!(job, Job::Send { .. }) {
        Arrivals::none()
    } else {
        Arrivals::at_wire_rate(vec![(64, 1)], 4, 80, 20, Random::new(1))
    };
    let cores = CoreCosts { poll_ps: 100_000, packet_ps: 5_000, wake_ps: 100_000 };
    let port = PortCosts { bus, send, receive };
    Setup { family, queues: 4, descriptors: 1024, head_write_back: false, port, arrivals, job, cores }
}

/// Hundredths of a byte to the NIC and to the host per packet.
fn bytes<L: Layout>(setup: Setup) -> (u64, u64) {
    let sending = matches!(setup.job, Job::Send { .. });
    let mut machine = build::<L>(setup).unwrap();
    let before = machine.run(100_000_000).unwrap();
    let after = machine.run(400_000_000).unwrap();
    machine.end(400_000_000).unwrap();
    let count = match sending {
        true => after.departed - before.departed,
        false => after.arrived.written - before.arrived.written,
    };
    assert!(count > 3000, "{count}");
    let (to_nic, to_host) = (
        after.bus.bytes.to_nic - before.bus.bytes.to_nic,
        after.bus.bytes.to_host - before.bus.bytes.to_host,
    );
    (to_nic * 100 / count, to_host * 100 / count)
}

#[track_caller]
fn near(measured: (u64, u64), wanted: (u64, u64)) {
    // What is under way at both ends, and what is cut at a ring's end.
    let close = |a: u64, b: u64| a.abs_diff(b) * 100 <= b.max(1000);
    assert!(close(measured.0, wanted.0) && close(measured.1, wanted.1), "{measured:?}, not {wanted:?}");
}

/// The table of what PCI Express carries for 64-byte packets: everything per packet; write-back 8, the tail for 32;
/// receiving with fetch 1 and write-back 1, fetch 32 and write-back 4.
#[test]
fn bytes_on_the_bus_are_those_of_the_table() {
    let send = |family, per_doorbell| setup(family, Job::Send { len_bytes: 64, per_doorbell });
    let each = Family { send_fetch_bytes: 16, send_write_back: 1, ..IXGBE };
    let mut alone = send(each, 1);
    alone.port.send.fetches = 64;
    near(bytes::<Advanced>(alone), (14_800, 8_800));
    // A doorbell for 32 is fetched at once where the NIC keeps up, not 40 at a time.
    let mut batched = send(IXGBE, 32);
    batched.cores.packet_ps = 40_000;
    near(bytes::<Advanced>(batched), (10_213, 4_375));
    let receive = |family| setup(family, Job::Drop);
    let one = Family { receive_fetch_bytes: 16, post: 32, ..IXGBE };
    near(bytes::<Advanced>(receive(one)), (3_688, 15_200));
    near(bytes::<Advanced>(receive(Family { receive_write_back: 4, post: 32, ..IXGBE })), (1_813, 11_075));
}

#[test]
fn packets_come_and_go_with_every_family() {
    for head_write_back in [false, true] {
        for family in [IXGBE, IGB] {
            let setup = Setup { head_write_back, ..setup(family, Job::SendBack { per_doorbell: 32 }) };
            assert!(bytes::<Advanced>(setup).1 > 10_000);
        }
        let setup = Setup { head_write_back, ..setup(E1000, Job::SendBack { per_doorbell: 32 }) };
        assert!(bytes::<Legacy>(setup).1 > 10_000);
    }
}

/// The driver, alone, with a NIC that lies.
struct Alone {
    pool: PagePool,
    cache: Cache,
    driver: Driver<Advanced>,
    memory: SharedMemory,
    queues: Queues,
}

fn alone(head_write_back: bool) -> Alone {
    let pool = PagePool::builder().frames(512).huge_pages(false).build().unwrap();
    let mut cache = pool.cache("test").unwrap();
    let memory = HostMemory::shared();
    let buffers = Buffers::new(pool.region(), &mut open(&memory));
    let spec = Spec { descriptors: 64, post: 16, head_write_back };
    let rings = Rings::new("ixgbe", &spec, &mut open(&memory)).unwrap();
    let queues = rings.queues();
    let mut driver = Pair::new("ixgbe", 0, rings, &memory, buffers, 1500);
    driver.attach(pool.region().clone()).unwrap();
    driver.post(&mut cache);
    Alone { pool, cache, driver, memory, queues }
}

#[test]
fn hostile_nics_give_errors_and_lose_nothing() {
    let Alone { pool, mut cache, mut driver, memory, queues } = alone(true);
    let (mut batch, mut done) = (Batch::new(64), Completions::new(64));
    cache.take(&mut batch, 10, 60).unwrap();
    driver.transmit(&mut batch, false);
    let Report::Head(head) = queues.report else { panic!("{queues:?}") };
    for lie in [11u32, 63, 64, u32::MAX] {
        open(&memory).write(head, &lie.to_le_bytes()).unwrap();
        let error = driver.reap(64, &mut done).unwrap_err().to_string();
        assert_eq!(error, format!("ixgbe:0: a head of {lie} in a ring of 64, with 10 outstanding"));
        assert_eq!((done.len(), driver.outstanding()), (0, 10));
    }
    // A length of 0, one longer than the buffer, a packet without an end, errors: then a good one.
    let good = Received { len_bytes: 60, last: true, errors: 0 };
    let lies = [
        Received { len_bytes: 0, ..good },
        Received { len_bytes: 1501, ..good },
        Received { last: false, ..good },
        Received { errors: 1, ..good },
        good,
    ];
    for (nth, lie) in lies.iter().enumerate() {
        let written = Advanced::received(&[0; 16], lie);
        open(&memory).write(queues.receive.at(nth as u32), &written).unwrap();
        assert_eq!(driver.receive(&mut cache, &mut batch, 64).is_ok(), *lie == good, "{lie:?}");
    }
    assert_eq!(batch.len(), 1);
    driver.close().unwrap();
    // The last lie stands: what was not sent fails all the same.
    assert!(driver.reap(64, &mut done).is_err());
    assert_eq!(done.failed.len(), 10);
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    cache.give(&mut batch).unwrap();
    driver.unpost(&mut cache);
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn rings_that_cannot_be_are_refused() {
    for descriptors in [0, 32, 100, 8192] {
        let spec = Spec { descriptors, post: 16, head_write_back: false };
        assert!(Rings::<Advanced>::new("ixgbe", &spec, &mut HostMemory::default()).is_err(), "{descriptors}");
    }
}

/// A full ring would look like an empty one.
#[test]
fn one_descriptor_of_a_ring_stays_free() {
    let Alone { pool, mut cache, mut driver, .. } = alone(false);
    let (mut batch, mut done) = (Batch::new(64), Completions::new(64));
    assert_eq!(driver.capabilities().ring_frames, Some(63));
    cache.take(&mut batch, 64, 60).unwrap();
    assert!(driver.transmit(&mut batch, false).stopped);
    assert_eq!((batch.len(), driver.outstanding()), (1, 63));
    driver.close().unwrap();
    driver.reap(64, &mut done).unwrap();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    cache.give(&mut batch).unwrap();
    driver.unpost(&mut cache);
    assert_eq!(pool.audit().out(), 0);
}

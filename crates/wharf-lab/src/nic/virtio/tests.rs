use super::driver::Rings;
use super::setup::{Setup, build};
use super::{Descriptor, Split};
use crate::engine::Random;
use crate::nic::NicDriver;
use crate::nic::buffers::Buffers;
use crate::nic::host::{HostMemory, open};
use crate::nic::machine::{CoreCosts, Job};
use crate::nic::pair::{Pair, RingBytes};
use crate::nic::port::{Arrivals, PortCosts};
use crate::nic::receive::ReceiveCosts;
use crate::nic::send::SendCosts;
use crate::pcie::BusSpec;
use proptest::prelude::*;
use wharf_core::device::{Completions, Device};
use wharf_core::pool::PagePool;
use wharf_mem::Batch;

fn setup(job: Job) -> Setup {
    let bus = BusSpec { link: "gen3x16".parse().unwrap(), tags: 256, latency_ps: 600_000 };
    let send = SendCosts {
        entry_ps: 0,
        fetch_bytes: 64,
        fetches: 4,
        wire_ps_per_byte: 80,
        wire_overhead_bytes: 20,
        ahead_ps: 2_000_000,
    };
    let arrivals = match job {
        Job::Send { .. } => Arrivals::none(),
        _ => Arrivals::at_wire_rate(vec![(64, 1), (1518, 1)], 2, 80, 20, Random::new(1)),
    };
    Setup {
        queues: 2,
        size: 256,
        interrupts: true,
        start: 0xff00,
        port: PortCosts {
            bus,
            send,
            receive: ReceiveCosts { buffer_bytes: 1 << 17, fetch_bytes: 64, keep_ps: 1_000_000 },
        },
        arrivals,
        job,
        cores: CoreCosts { poll_ps: 100_000, packet_ps: 40_000, wake_ps: 100_000 },
    }
}

#[test]
fn bytes_on_the_bus_by_hand() {
    let mut machine = build(setup(Job::Send { len_bytes: 64, per_doorbell: 32 })).unwrap();
    let before = machine.run(50_000_000).unwrap();
    let after = machine.run(250_000_000).unwrap();
    machine.end(250_000_000).unwrap();
    let count = after.departed - before.departed;
    assert!(count > 5000, "{count}");
    let per = |bytes: u64| bytes * 100 / count;
    let to_nic = per(after.bus.bytes.to_nic - before.bus.bytes.to_nic);
    let to_host = per(after.bus.bytes.to_host - before.bus.bytes.to_host);
    // Packet and header 96, descriptor 36, 32 indices at once 84 / 32, a kick 28 / 32.
    assert!(to_nic.abs_diff(9_600 + 3_600 + 262 + 88) < 130, "{to_nic}");
    // Two requests 48, and one for 32 indices; used element 32; for 16 of them, index 26 and interrupt 28.
    assert!(to_host.abs_diff(4_800 + 75 + 3_200 + 338) < 130, "{to_host}");
}

#[test]
fn packets_come_and_go() {
    for (job, interrupts) in [(Job::Drop, false), (Job::SendBack { per_doorbell: 16 }, true)] {
        let mut machine = build(Setup { interrupts, ..setup(job) }).unwrap();
        machine.run(1_000_000_000).unwrap();
        let totals = machine.end(1_000_000_000).unwrap();
        assert!(totals.received > 5000 && totals.accepted <= totals.received, "{totals:?}");
    }
    assert!(build(Setup { size: 100, ..setup(Job::Drop) }).is_err());
}

proptest! {
    #[test]
    fn descriptors_are_read_as_written(address: u64, len_bytes: u32, write: bool, bytes: [u8; 16]) {
        let descriptor = Descriptor { address, len_bytes, write };
        prop_assert_eq!(Descriptor::from_bytes(&descriptor.to_bytes()), Ok(descriptor));
        if let Ok(read) = Descriptor::from_bytes(&bytes) {
            prop_assert_eq!(&read.to_bytes()[..14], &bytes[..14]);
        }
    }

    /// Whatever is in the used ring: places that are in use, each once, or errors, and an end.
    #[test]
    fn any_used_ring_ends(bytes in proptest::collection::vec(any::<u8>(), 4 + 8 * 16), start: u16) {
        let mut memory = HostMemory::default();
        let (send, receive) = (Split::allocate(16, &mut memory), Split::allocate(16, &mut memory));
        let mut rings = Rings::new(send, receive, start);
        let mut held = [false; 16];
        for n in 0..10 {
            held[rings.send(0x10_0000 + n * 2048, 60, &mut memory).unwrap()] = true;
        }
        rings.ring(&mut memory).unwrap();
        memory.write(send.used, &bytes).unwrap();
        memory.write(send.used + 2, &start.wrapping_add(u16::from(bytes[0])).to_le_bytes()).unwrap();
        for _ in 0..20 {
            match rings.next_sent(&mut memory) {
                Ok(Some(place)) => prop_assert!(std::mem::take(&mut held[place]), "{place}"),
                Ok(None) => break,
                Err(lie) => prop_assert!(lie.0.contains("used"), "{lie}"),
            }
        }
    }
}

#[test]
fn a_lying_nic_gives_errors_and_loses_nothing() {
    let pool = PagePool::builder().frames(256).huge_pages(false).build().unwrap();
    let mut cache = pool.cache("test").unwrap();
    let memory = HostMemory::shared();
    let buffers = Buffers::new(pool.region(), &mut open(&memory));
    let (send, receive) = {
        let mut there = open(&memory);
        (Split::allocate(32, &mut there), Split::allocate(32, &mut there))
    };
    let mut driver = Pair::new("virtio", 0, Rings::new(send, receive, 0), &memory, buffers, 1500);
    driver.attach(pool.region().clone()).unwrap();
    driver.post(&mut cache);
    let (mut batch, mut done) = (Batch::new(64), Completions::new(64));
    cache.take(&mut batch, 5, 60).unwrap();
    assert!(driver.transmit(&mut batch, false).doorbell);
    let used = |ring: &Split, index: u16, id: u32, len_bytes: u32| {
        let mut there = open(&memory);
        there.write(ring.used_at(index.wrapping_sub(1)), &id.to_le_bytes()).unwrap();
        there.write(ring.used_at(index.wrapping_sub(1)) + 4, &len_bytes.to_le_bytes()).unwrap();
        there.write(ring.used + 2, &index.to_le_bytes()).unwrap();
    };
    used(&send, 6, 0, 0);
    let error = driver.reap(64, &mut done).unwrap_err().to_string();
    assert_eq!(error, "virtio:0: a used index of 6: 6 new of 5 available");
    for (index, id) in [(1, 9), (2, 32), (3, u32::MAX)] {
        used(&send, index, id, 0);
        assert!(driver.reap(64, &mut done).is_err(), "{id}");
    }
    used(&send, 4, 2, 0);
    driver.reap(64, &mut done).unwrap();
    assert_eq!((done.len(), driver.outstanding()), (1, 4));
    // Received: of no length, longer than the buffer; then as it should be.
    for (index, len_bytes, good) in [(1, 12, false), (2, 1513, false), (3, 72, true)] {
        used(&receive, index, u32::from(index), len_bytes);
        assert_eq!(driver.receive(&mut cache, &mut batch, 64).is_ok(), good, "{len_bytes}");
    }
    assert_eq!((batch.len(), batch.bytes()), (1, 60));
    cache.give(&mut batch).unwrap();
    cache.give(&mut done.sent).unwrap();
    driver.close().unwrap();
    driver.reap(64, &mut done).unwrap();
    done.failed.drain(..).for_each(|(frame, _)| cache.give_one(frame).unwrap());
    driver.unpost(&mut cache);
    assert_eq!(pool.audit().out(), 0);
}

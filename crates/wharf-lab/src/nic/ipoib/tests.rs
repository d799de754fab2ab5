use super::driver::{Queues, Requests};
use super::formats::Queue;
use super::setup::{Setup, build};
use super::{Completion, Next, SEND_BYTES, datagram};
use crate::engine::Random;
use crate::nic::cx5::segment::Pointer;
use crate::nic::host::HostMemory;
use crate::nic::machine::{CoreCosts, Job};
use crate::nic::pair::RingBytes;
use crate::nic::port::{Arrivals, PortCosts};
use crate::nic::receive::ReceiveCosts;
use crate::nic::send::{SendCosts, SendFormat};
use crate::pcie::BusSpec;
use proptest::prelude::*;

fn setup(job: Job) -> Setup {
    let bus = BusSpec { link: "gen1x8,mps=128".parse().unwrap(), tags: 32, latency_ps: 600_000 };
    let arrivals = match job {
        Job::Send { .. } => Arrivals::none(),
        _ => Arrivals::at_wire_rate(vec![(2044, 1)], 1, 1000, 38, Random::new(1)),
    };
    let send = SendCosts {
        entry_ps: 0,
        fetch_bytes: 0,
        fetches: 4,
        wire_ps_per_byte: 1000,
        wire_overhead_bytes: 20,
        ahead_ps: 2_000_000,
    };
    Setup {
        requests: 128,
        completion_each: false,
        port: PortCosts {
            bus,
            send,
            receive: ReceiveCosts { buffer_bytes: 1 << 17, fetch_bytes: 0, keep_ps: 1_000_000 },
        },
        arrivals,
        job,
        cores: CoreCosts { poll_ps: 100_000, packet_ps: 400_000, wake_ps: 100_000 },
    }
}

/// What linking 16 requests into a post spares: 15 doorbells and 15 completions of 16.
#[test]
fn bytes_on_the_bus_by_hand() {
    for (per_doorbell, completion_each, doorbells, completions) in
        [(1, true, 100, 100), (16, true, 6, 100), (16, false, 6, 6)]
    {
        let setup = Setup { completion_each, ..setup(Job::Send { len_bytes: 64, per_doorbell }) };
        let mut machine = build(setup).unwrap();
        let before = machine.run(100_000_000).unwrap();
        let after = machine.run(1_100_000_000).unwrap();
        machine.end(1_100_000_000).unwrap();
        let count = after.departed - before.departed;
        assert!(count > 1000, "{count}");
        let per = |bytes: u64| bytes * 100 / count;
        let to_nic = per(after.bus.bytes.to_nic - before.bus.bytes.to_nic);
        let to_host = per(after.bus.bytes.to_host - before.bus.bytes.to_host);
        let wanted = (8_400 + 10_000 + 32 * doorbells, 2_400 + 2_400 + 56 * completions);
        assert!(
            to_nic.abs_diff(wanted.0) < 150 && to_host.abs_diff(wanted.1) < 150,
            "{to_nic} {to_host} {wanted:?}"
        );
    }
}

#[test]
fn packets_come_and_go() {
    for job in [Job::Drop, Job::SendBack { per_doorbell: 16 }] {
        let mut machine = build(setup(job)).unwrap();
        machine.run(2_000_000_000).unwrap();
        let totals = machine.end(2_000_000_000).unwrap();
        assert!(totals.received > 500, "{totals:?}");
    }
    assert!(build(Setup { requests: 100, ..setup(Job::Drop) }).is_err());
}

#[test]
fn requests_are_linked_and_posted_together() {
    let mut memory = HostMemory::default();
    let queues = Queues::allocate(16, &mut memory);
    let mut requests = Requests::new(&queues, 0x48, false);
    let nic = Queue::new(queues.send, queues.sent);
    let send = |requests: &mut Requests, memory: &mut HostMemory, count: u64| {
        (0..count).for_each(|n| assert!(requests.send(0x10_0000 + n * 2048, 60, memory).is_ok()));
    };
    send(&mut requests, &mut memory, 3);
    assert_eq!(requests.ring(&mut memory), Ok(Some((0, 8))));
    send(&mut requests, &mut memory, 2);
    let next = |index: u32| Next::from_bytes(memory.bytes(queues.send.at(index), 16).unwrap());
    assert_eq!(next(0), Next { offset: Some(128), doorbell_due: false, completion: false });
    assert_eq!(next(2), Next { offset: Some(384), doorbell_due: true, completion: true });
    assert_eq!(next(4), Next { offset: None, doorbell_due: false, completion: true });
    // The first doorbell is for three, though two more are there; the second for those.
    assert_eq!(SendFormat::tail(&nic, 0, 0, &memory), 3);
    assert_eq!(requests.ring(&mut memory), Ok(Some((384, 8))));
    assert_eq!(SendFormat::tail(&nic, 3, 384, &memory), 5);
    // A doorbell for elsewhere, and links that go in a circle, or astray: more than the ring holds.
    assert!(SendFormat::tail(&nic, 3, 128, &memory) > 16 + 3);
    let astray = Next { offset: Some(0), doorbell_due: false, completion: true }.to_segment(5);
    memory.write(queues.send.at(4), &astray).unwrap();
    assert!(SendFormat::tail(&nic, 3, 384, &memory) > 16 + 3);
}

#[test]
fn hostile_completions_are_errors() {
    let mut memory = HostMemory::default();
    let queues = Queues::allocate(16, &mut memory);
    let mut requests = Requests::new(&queues, 0x48, true);
    (0..4).for_each(|n| assert!(requests.send(0x10_0000 + n * 2048, 60, &mut memory).is_ok()));
    requests.ring(&mut memory).unwrap();
    let good = Completion { offset: 0, byte_count: 0, send: true, error: false };
    let lies = [
        Completion { offset: 4 * 128, ..good },
        Completion { offset: 64, ..good },
        Completion { offset: 16 * 128, ..good },
        Completion { offset: u32::MAX, ..good },
    ];
    for (nth, lie) in lies.iter().enumerate() {
        memory.write(queues.sent.at(nth as u32), &lie.to_slot()).unwrap();
        let error = requests.next_sent(&mut memory).unwrap_err().to_string();
        assert!(error.contains("not outstanding"), "{error}");
    }
    memory.write(queues.sent.at(4), &Completion { offset: 128, ..good }.to_slot()).unwrap();
    let sent: Vec<_> = std::iter::from_fn(|| requests.next_sent(&mut memory).unwrap()).collect();
    assert_eq!(sent, [0, 1], "one completion is for all up to it");
}

proptest! {
    #[test]
    fn reading_is_the_inverse_of_writing(
        offset in 0u32..1 << 20, due: bool, completion: bool, address: u64, len_bytes in 1u32..1 << 31,
        byte_count: u32, send: bool, error: bool,
    ) {
        let next = Next { offset: Some(offset & !63), doorbell_due: due, completion };
        prop_assert_eq!(Next::from_bytes(&next.to_segment(5)), next);
        let pointer = Pointer { address, len_bytes, key: 7 };
        let request = datagram(0x48, pointer);
        prop_assert_eq!(request.len() + 16, SEND_BYTES);
        prop_assert_eq!(Pointer::from_segment(request[48..].first_chunk().unwrap()), Some(pointer));
        let completion = Completion { offset, byte_count, send, error };
        prop_assert_eq!(Completion::from_slot(&completion.to_slot()), Some(completion));
    }

    /// Any completion queue: outstanding requests, each once, or errors, and an end.
    #[test]
    fn any_completions_end(bytes in proptest::collection::vec(any::<u8>(), 32 * 16)) {
        let mut memory = HostMemory::default();
        let queues = Queues::allocate(16, &mut memory);
        let mut requests = Requests::new(&queues, 0x48, true);
        for n in 0..10 {
            requests.send(0x10_0000 + n * 2048, 60, &mut memory).unwrap();
        }
        requests.ring(&mut memory).unwrap();
        memory.write(queues.sent.address, &bytes).unwrap();
        let mut sent = 0;
        for _ in 0..40 {
            match requests.next_sent(&mut memory) {
                Ok(Some(place)) => {
                    prop_assert_eq!(place, sent);
                    sent += 1;
                }
                Ok(None) => break,
                Err(_) => {}
            }
        }
        prop_assert!(sent <= 10);
    }
}

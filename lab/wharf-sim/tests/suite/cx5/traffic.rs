//! Bytes on the bus per packet, measured by running the model.

use wharf_plan::pcie::BusSpec;
use wharf_sim::engine::Random;
use wharf_sim::nic::NicDriver;
use wharf_sim::nic::cx5::compress::Compress;
use wharf_sim::nic::cx5::half::SELECTED;
use wharf_sim::nic::cx5::send_half::Spec;
use wharf_sim::nic::cx5::setup::{Setup, build, build_slim, build_striding};
use wharf_sim::nic::cx5::striding;
use wharf_sim::nic::machine::{CoreCosts, Job, Machine, Totals};
use wharf_sim::nic::port::{Arrivals, PortCosts};
use wharf_sim::nic::receive::{ReceiveCosts, ReceiveFormat};
use wharf_sim::nic::send::{SendCosts, SendFormat};

fn setup(job: Job) -> Setup {
    let bus = BusSpec { link: "gen3x16".parse().unwrap(), tags: 256, latency_ps: 600_000 };
    let send = SendCosts {
        entry_ps: 0,
        fetch_bytes: 512,
        fetches: 4,
        wire_ps_per_byte: 80,
        wire_overhead_bytes: 20,
        ahead_ps: 2_000_000,
    };
    let receive =
        ReceiveCosts { buffer_bytes: 1 << 17, fetch_bytes: 512, keep_ps: 100_000_000, posted_packets: 2 };
    let arrivals = if matches!(job, Job::Send { .. }) {
        Arrivals::none()
    } else {
        Arrivals::at_wire_rate(vec![(64, 1)], 4, 80, 20, Random::new(1))
    };
    Setup {
        queues: 4,
        spec: Spec {
            log_send_blocks: 10,
            log_receive: 10,
            xdp_tx_mpwqe: false,
            inline_from: None,
            completion_each: false,
        },
        rx_cqe_compress: None,
        port: PortCosts { bus, send, receive },
        arrivals,
        job,
        cores: CoreCosts { poll_ps: 50_000, packet_ps: 5_000, wake_ps: 100_000 },
    }
}

/// Runs it for 200 microseconds after 50. Returns hundredths of a byte to the NIC and to the host per packet.
fn bytes(setup: Setup) -> (u64, u64) {
    let sending = matches!(setup.job, Job::Send { .. });
    measured(build(setup).unwrap(), sending)
}

fn measured<D: NicDriver, S: SendFormat, R: ReceiveFormat>(
    mut machine: Machine<D, S, R>, sending: bool,
) -> (u64, u64) {
    let before = machine.run(50_000_000).unwrap();
    let after = machine.run(250_000_000).unwrap();
    machine.end(250_000_000).unwrap();
    let packets = |totals: &Totals| if sending { totals.departed } else { totals.arrived.written };
    let count = packets(&after) - packets(&before);
    assert!(count > 1000, "{count}");
    let per = |of: fn(&Totals) -> u64| (of(&after) - of(&before)) * 100 / count;
    (per(|totals| totals.bus.bytes.to_nic), per(|totals| totals.bus.bytes.to_host))
}

#[track_caller]
fn near(measured: (u64, u64), wanted: (u64, u64)) {
    // Transfers in flight at both ends, and fetches cut at a ring's end.
    let close = |a: u64, b: u64| a.abs_diff(b) * 200 <= b.max(1000);
    assert!(close(measured.0, wanted.0) && close(measured.1, wanted.1), "{measured:?}, not {wanted:?}");
}

fn send(per_doorbell: usize) -> Setup {
    setup(Job::Send { len_bytes: 64, per_doorbell })
}

#[test]
fn one_entry_one_doorbell_one_completion() {
    let mut setup = send(1);
    // The NIC keeps up with the doorbells, one entry at a time.
    (setup.port.send.fetch_bytes, setup.port.send.fetches, setup.cores.poll_ps) = (64, 16, 100_000);
    near(bytes(setup), (20_000, 13_600));
}

#[test]
fn entries_fetched_by_eight_completion_and_doorbell_per_32() {
    near(bytes(send(32)), (15_400, 2_975));
}

#[test]
fn multi_packet_entries_of_58_pointers() {
    let mut setup = send(58);
    setup.spec.xdp_tx_mpwqe = true;
    near(bytes(setup), (10_248, 2_634));
}

#[test]
fn multi_packet_entries_with_11_packets_inside() {
    let mut setup = send(11);
    (setup.spec.xdp_tx_mpwqe, setup.spec.inline_from) = (true, Some(0));
    // 912 bytes of segments are 15 blocks, and the NIC reads whole blocks: (960 + 80 + 32) / 11, and what
    // fills the ring up to its end. By segments it would be 93.1.
    near(bytes(setup), (9_800, 1_236));
}

#[test]
fn a_completion_for_each_packet_received() {
    near(bytes(setup(Job::Drop)), (1_725, 17_675));
}

#[test]
fn compressed_completions_in_sessions_of_64_and_8() {
    for (session_max, to_host) in [(64, 10_112), (8, 11_075)] {
        let mut setup = setup(Job::Drop);
        setup.rx_cqe_compress = Some(Compress { selected: SELECTED, session_max });
        near(bytes(setup), (1_725, to_host));
    }
}

#[test]
fn packets_sent_back_cross_the_bus_twice() {
    let (to_nic, to_host) = bytes(setup(Job::SendBack { per_doorbell: 64 }));
    assert!(to_nic > 13_000 && to_host > 19_500, "{to_nic} {to_host}");
}

/// Packet and metadata 100, 32 entries at once 552 / 32, a doorbell for 32; a completion for 32.
#[test]
fn entries_of_16_bytes_with_the_metadata_in_the_buffer() {
    near(measured(build_slim(send(32)).unwrap(), true), (11_825, 2_750));
    let mut setup = setup(Job::SendBack { per_doorbell: 64 });
    setup.rx_cqe_compress = Some(Compress { selected: SELECTED, session_max: 64 });
    let mut machine = build_slim(setup).unwrap();
    machine.run(100_000_000).unwrap();
    let totals = machine.end(100_000_000).unwrap();
    assert!(totals.accepted > 3000, "{totals:?}");
}

/// A buffer's entry and its read are shared by all its packets: next to nothing to the NIC, title and mini
/// completions to the host. Sessions end with the buffer, so they are shorter than 64.
#[test]
fn striding_receive_posts_next_to_nothing() {
    for (session_max, to_host) in [(64, 10_250), (8, 11_100)] {
        let mut setup = setup(Job::Drop);
        setup.spec.log_receive = 12;
        setup.rx_cqe_compress = Some(Compress { selected: striding::SELECTED, session_max });
        let (nic, host) = measured(build_striding(setup).unwrap(), false);
        assert!(nic < 150 && host.abs_diff(to_host) < 200, "{nic} {host}");
    }
}

#[test]
fn strides_of_all_sizes_come_back_in_order() {
    for (sizes, compress) in [(vec![(64, 3), (300, 2), (1522, 1)], true), (vec![(1522, 1)], false)] {
        let mut setup = setup(Job::SendBack { per_doorbell: 64 });
        setup.arrivals = Arrivals::at_wire_rate(sizes, 4, 80, 20, Random::new(3));
        setup.spec.log_receive = 10;
        let session_max = 64;
        setup.rx_cqe_compress = compress.then_some(Compress { selected: striding::SELECTED, session_max });
        let mut machine = build_striding(setup).unwrap();
        machine.run(200_000_000).unwrap();
        let totals = machine.end(200_000_000).unwrap();
        assert!(totals.accepted > 1000, "{totals:?}");
    }
}

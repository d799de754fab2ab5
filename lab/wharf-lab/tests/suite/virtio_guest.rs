//! A virtual machine in the model: with any setup, all that enters leaves, and sockets are told of it.

use proptest::prelude::*;
use wharf_lab::models::virtio_guest::{Costs, Outcome, Release, Setup, Traffic, run};
use wharf_sim::flows::tcp::Rules;
use wharf_sim::harness::Timing;

const RELEASES: [Release; 3] = [Release::Upstream, Release::Timer { every_ns: 50_000 }, Release::Napi];

fn costs() -> Costs {
    Costs {
        write_ns: 450,
        send_ns: 350,
        xmit_ns: 300,
        free_ns: 50,
        receive_ns: 350,
        ask_ns: 500,
        kick_ns: 2000,
        interrupt_ns: 3000,
        interrupt_running_ns: 1000,
        turn_ns: 500,
        carry_ns: 550,
        super_ns: 1600,
        signal_ns: 250,
        wake_ns: 800,
        wake_latency_ns: 2800,
        answer_ns: 700,
        find_ns: 200,
        ack_ns: 600,
        copy_ps_per_byte: 160,
        carry_ps_per_byte: 160,
        datagram_ps_per_byte: 220,
        cold_ps_per_byte: 50,
        cache_flows: 10,
        halt_poll_ns: 400_000,
        poll_exit_ns: 500,
        halt_exit_ns: 5000,
    }
}

fn setup(release: Release, traffic: Traffic, flows: usize) -> Setup {
    Setup {
        release,
        traffic,
        flows,
        rules: Rules { small_queue_bytes_max: Some(262_144), peer_window_bytes: 6 << 20, ..Rules::default() },
        send_buffer_bytes: 3_890_000,
        receive_buffer_bytes: 212_992,
        ring_descriptors: 256,
        qdisc_packets: 1000,
        costs: costs(),
        time: Timing { seed: 1, jitter_permille: 300, settle_ns: 5_000_000, measure_ns: 5_000_000 },
    }
}

fn go(setup: Setup) -> Outcome {
    run(setup, &mut || true).unwrap()
}

fn traffic() -> impl Strategy<Value = Traffic> {
    prop_oneof![
        (1u32..100_000).prop_map(|write_bytes| Traffic::TcpStream { write_bytes }),
        (1u32..65_507).prop_map(|datagram_bytes| Traffic::UdpStream { datagram_bytes }),
        (1u32..20_000, any::<bool>()).prop_map(|(bytes, tcp)| Traffic::Requests { bytes, tcp }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_setup_delivers_all(
        traffic in traffic(),
        release in prop::sample::select(RELEASES.to_vec()),
        flows in 1..40usize,
        (ring_descriptors, qdisc_packets) in (prop::sample::select(vec![32u16, 64, 256]), 1..200usize),
        seed in any::<u64>(),
    ) {
        let mut changed = Setup { ring_descriptors, qdisc_packets, ..setup(release, traffic, flows) };
        changed.time = Timing { seed, settle_ns: 300_000, measure_ns: 700_000, ..changed.time };
        let outcome = run(changed.clone(), &mut || true).unwrap();
        prop_assert!(outcome.packets_in_all > 0 && outcome.busy_ns <= 3 * outcome.measured_ns + 50_000, "{outcome:?}");
        prop_assert_eq!(run(changed, &mut || true).unwrap(), outcome, "same seed, same result");
    }
}

/// The purpose of the series: small queues work again, and packets are large although each write is small.
#[test]
fn late_completions_make_larger_packets() {
    let traffic = Traffic::TcpStream { write_bytes: 16_384 };
    let [upstream, timer, napi] = RELEASES.map(|release| go(setup(release, traffic, 1)));
    let bytes = |outcome: &Outcome| outcome.data_bytes / outcome.data_packets;
    assert_eq!(bytes(&upstream), 16_384, "a write, a packet");
    assert!(bytes(&napi) > 2 * 16_384 && bytes(&timer) > 2 * 16_384, "{} {}", bytes(&timer), bytes(&napi));
    assert_eq!([upstream.transmit_interrupts, timer.transmit_interrupts], [0, 0]);
    assert!(napi.transmit_interrupts > 0 && napi.transmit_interrupts < napi.data_packets, "{napi:?}");
}

#[test]
fn answers_take_longer_with_more_flows() {
    let p50 = |flows| {
        go(setup(Release::Napi, Traffic::Requests { bytes: 1, tcp: true }, flows)).answered_within_ns(500)
    };
    let [one, ten, hundred] = [1, 10, 100].map(p50);
    assert!(one < ten && ten < hundred && one < 40_000, "{one} {ten} {hundred}");
}

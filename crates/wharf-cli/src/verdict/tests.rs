//! Verdicts by table: figures, the bound, and words of the text.

use super::*;
use crate::host_queue::HostQueueReport;
use std::collections::BTreeMap;
use wharf::qdisc::Rate;
use wharf_devices::reasons::Counted;
use wharf_devices::registry::Registry;
use wharf_devices::spec::Kind;
use wharf_tools::traffic::{Pause, Pauses};

fn time(busy: f64, queued: f64) -> ProcessorTime {
    ProcessorTime { wall: 1.0, used: busy, kernel: busy / 2.0, queued }
}

fn drops(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
    all.iter().map(|&(reason, count)| (reason.to_string(), count)).collect()
}

fn kind(name: &str) -> &'static Kind {
    Registry::default().kinds().iter().copied().find(|kind| kind.name == name).unwrap()
}

fn command(line: &str) -> CommandLine {
    CommandLine(line.split(' ').map(str::to_string).collect())
}

/// A run that asked for 1 Mpps on an interface and had 0.5, for no reason that shows.
fn short_of() -> SendFigures {
    SendFigures {
        command: command("wharf send --rate 1mpps --to packet:eth0"),
        kind: kind("packet"),
        to: "packet:eth0".into(),
        has_far_end: false,
        has_bench: true,
        asked: Asked::Rate { pps: 1e6 },
        sent: 500_000,
        came_pps: 5e5,
        came_bps: 5e5 * 60.0 * 8.0,
        seconds: 1.0,
        link_bps: None,
        senders: 1,
        sending: time(0.4, 0.0),
        receiving: None,
        waits: 0,
        requeues: 0,
        frames: 4096,
        short_share: 0.0,
        drops: BTreeMap::new(),
        away_seconds: 0.0,
        late_ns: 0,
        pauses: Pauses::default(),
        host_queue: None,
        unrefused_seconds: None,
    }
}

fn assert_sent(cases: Vec<(SendFigures, Bound, &str)>) {
    for (figures, bound, says) in cases {
        let verdict = send(&figures);
        assert_eq!(verdict.bounded_by, bound, "{figures:?}: {verdict:?}");
        assert!(verdict.text[0].contains(says), "{says}: {verdict:?}");
        assert_eq!(verdict.loss, None);
    }
}

#[test]
fn threads_that_wait_or_spin_tell_the_bound() {
    let base = SendFigures { waits: 9, ..short_of() };
    let receiving = Some(time(0.9, 0.0));
    assert_sent(vec![
        (
            SendFigures { requeues: 7, ..base.clone() },
            Bound::Device,
            "waited 60 % of the time for the device",
        ),
        (
            SendFigures { short_share: 0.9, ..base.clone() },
            Bound::Device,
            "all of the 4096 frames were in use",
        ),
        (SendFigures { away_seconds: 0.4, ..base.clone() }, Bound::Device, "was away for 0.4 s of 1.0 s"),
        (SendFigures { receiving, ..base.clone() }, Bound::Receiver, "the receiver in this process"),
        (SendFigures { sending: time(0.7, 0.15), ..base.clone() }, Bound::Processor, "a processor 70 %"),
        (SendFigures { sending: time(0.5, 0.5), waits: 0, ..base }, Bound::Processor, "for one 50 % of it"),
    ]);
}

#[test]
fn the_hosts_queue_is_a_witness_before_the_receiver_is_blamed() {
    let (kind, to) = (kind("udp"), "udp:10.0.0.2:9".to_string());
    let drops = BTreeMap::from([("connection-refused".to_string(), 9)]);
    let refused = SendFigures { kind, to, drops, unrefused_seconds: Some(0.1), ..short_of() };
    let verdict = send(&refused);
    assert_eq!(verdict.bounded_by, Bound::Receiver);
    assert!(verdict.text[1].contains("perhaps all"), "{verdict:?}");

    let htb = HostQueueReport { kind: "htb".into(), sent: 9, dropped: 3, backlog: 20_000 };
    let verdict = send(&SendFigures { host_queue: Some(htb.clone()), ..refused.clone() });
    assert_eq!(verdict.bounded_by, Bound::Host);
    let says = "the host's queue (htb) dropped 3 packets and held 20000 packets at the end.";
    assert!(verdict.text[0].ends_with(says), "{verdict:?}");

    // A receiver that came late refuses no more.
    let verdict = send(&SendFigures { unrefused_seconds: Some(2.1), ..refused });
    assert_ne!(verdict.bounded_by, Bound::Receiver);
    assert!(verdict.text[1].contains("9 packets as connection-refused, but none in the last 2.1 s"));

    // Nothing is as asked over a hole; what passes by is none.
    let kept = SendFigures { came_pps: 1e6, sent: 1_000_000, ..short_of() };
    let verdict = send(&SendFigures { host_queue: Some(htb), ..kept.clone() });
    assert_eq!(verdict.bounded_by, Bound::Host);
    let passing = HostQueueReport { backlog: 9, ..HostQueueReport::default() };
    assert_eq!(send(&SendFigures { host_queue: Some(passing), ..kept }).bounded_by, Bound::Rate);
}

#[test]
fn a_rate_a_link_and_a_short_run_bound_on_their_own() {
    let base = short_of();
    let original = |late_ns| SendFigures { asked: Asked::Original, late_ns, waits: 9, ..short_of() };
    let link = SendFigures { link_bps: Some(3.4e8), waits: 9, ..short_of() };
    let brief = SendFigures { asked: Asked::Top, seconds: 0.001, ..short_of() };
    assert_sent(vec![
        (SendFigures { came_pps: 9.8e5, sent: 980_000, ..short_of() }, Bound::Rate, "980 kpps: as asked"),
        (base.clone(), Bound::Nothing, "came to 500 kpps: no counter shows a limit."),
        (link, Bound::Link, "of the link's 340 Mbit/s"),
        (brief, Bound::Count, "too short to show a limit"),
        (original(9), Bound::Rate, "at the times of the capture"),
        (original(1 << 30), Bound::Device, "up to 1.07 s"),
        (SendFigures { sent: 0, came_pps: 0.0, ..base }, Bound::Nothing, "nothing was sent"),
        (
            SendFigures { sent: 0, came_pps: 0.0, ..original(0) },
            Bound::Nothing,
            "Came to 0 pps: nothing was sent",
        ),
    ]);
    let holed = send(&SendFigures { drops: drops(&[("ring-full", 100_000)]), ..original(0) });
    assert!(holed.bounded_by != Bound::Rate && !holed.text[0].contains("s asked"), "{holed:?}");
}

#[test]
fn a_pause_is_not_as_asked_whatever_the_rate_came_to() {
    let kept = SendFigures { came_pps: 1e6, sent: 1_000_000, ..short_of() };
    let pause = |count| Pause { count, total_ns: count * 2_000_000_000, max_ns: 2_000_000_000 };
    let paused = |pauses| SendFigures { pauses, waits: 9, requeues: 1, ..kept.clone() };
    let (process, device, source) = (
        Pauses { process: pause(1), ..Pauses::default() },
        Pauses { device: pause(3), process: pause(1), ..Pauses::default() },
        Pauses { source: pause(1), ..Pauses::default() },
    );
    let original = SendFigures { asked: Asked::Original, late_ns: 110_000_000, ..paused(process) };
    assert_sent(vec![
        (kept.clone(), Bound::Rate, "as asked"),
        (paused(process), Bound::Processor, "this process did not run once, for 2.0"),
        (paused(device), Bound::Device, "the device took nothing 3 times, for 6.0"),
        // It would have fallen short without the pause, too.
        (
            SendFigures { sent: 100_000, seconds: 10.0, sending: time(0.95, 0.0), ..paused(process) },
            Bound::Processor,
            "the sending thread used a processor",
        ),
        (paused(source), Bound::Senders, "the stream had no packet once"),
        (original, Bound::Processor, "times of the capture: this process did not run once"),
        (
            SendFigures { late_ns: 1 << 30, waits: 9, ..kept.clone() },
            Bound::Device,
            "1.00 Mpps, up to 1.07 s late (p99): ",
        ),
    ]);
}

#[test]
fn a_policy_that_drops_bounds_by_the_device_although_its_sender_never_waits() {
    let drops = drops(&[("drop-tail", 300_000), ("link-down", 2)]);
    let figures = SendFigures { sending: time(1.0, 0.0), drops, ..short_of() };
    let verdict = send(&figures);
    assert_eq!(verdict.bounded_by, Bound::Device);
    let loss = verdict.loss.unwrap();
    assert_eq!((loss.packets, loss.reason()), (300_002, "drop-tail"));
    assert!(
        verdict.text[1].starts_with("Lost 300002 packets (38 %), most as drop-tail: The queue was full"),
        "{:?}",
        verdict.text
    );
    assert_eq!(verdict.next.as_deref(), Some("wharf send --rate 1mpps --to packet:eth0 --when-full wait"));
}

#[test]
fn a_short_paced_run_is_judged_by_when_its_last_packet_was_due() {
    let at =
        |seconds| send(&SendFigures { sent: 11, asked: Asked::Rate { pps: 1000.0 }, seconds, ..short_of() });
    assert_eq!(
        [at(0.010), at(0.0103), at(0.014), at(0.030)].map(|verdict| verdict.bounded_by),
        [Bound::Rate, Bound::Rate, Bound::Count, Bound::Nothing]
    );
    let longer = |seconds| {
        send(&SendFigures { sent: 101, asked: Asked::Rate { pps: 1000.0 }, seconds, ..short_of() }).bounded_by
    };
    assert_eq!([longer(0.104), longer(0.12)], [Bound::Rate, Bound::Nothing]);
}

fn reception() -> ReceiveFigures {
    ReceiveFigures {
        command: command("wharf receive --frames 4096 --from xdp:far"),
        kind: kind("xdp"),
        interface: Some("far".into()),
        is_file: false,
        packets: 800,
        host_packets: 0,
        left_out: 0,
        seconds: 1.0,
        came_pps: 800.0,
        generated: 800,
        lost: 0,
        lost_before_first: 0,
        receiving: None,
        frames: 4096,
        drops: BTreeMap::new(),
    }
}

#[test]
fn a_receiver_is_blamed_for_its_own_drops_alone() {
    let whole = receive(&reception());
    assert_eq!((whole.bounded_by, whole.asked_pps, &whole.loss), (Bound::Senders, Some(800.0), &None));

    let slow = ReceiveFigures {
        lost: 200,
        drops: drops(&[("fill-ring-empty", 200)]),
        receiving: Some(time(0.6, 0.3)),
        ..reception()
    };
    let slow = receive(&slow);
    assert_eq!((slow.bounded_by, slow.asked_pps), (Bound::Receiver, Some(1000.0)));
    assert!(slow.text[0].contains("too slow for 20 % of the arrivals"), "{:?}", slow.text);
    assert!(slow.text[1].starts_with("The receiving thread used a processor 60 %"), "{:?}", slow.text);
    assert!(slow.text[2].contains("--frames") && slow.text[2].contains("--cpu"), "{:?}", slow.text);
    assert_eq!(slow.next.as_deref(), Some("wharf receive --from xdp:far --frames 16384"));

    let before = receive(&ReceiveFigures { lost: 200, ..reception() });
    assert_eq!(before.bounded_by, Bound::Nothing);
    assert!(before.text[1].contains("lost before it"), "{:?}", before.text);
    let late = receive(&ReceiveFigures { lost: 200, lost_before_first: 200, ..reception() });
    assert!(late.text[1].contains("all of them have lower numbers than the first"), "{:?}", late.text);
    assert_eq!(before.next.as_deref(), Some("ethtool -S far"));
    assert_eq!(receive(&ReceiveFigures { packets: 0, ..reception() }).text, ["No packet arrived."]);
    let of_hosts = receive(&ReceiveFigures { packets: 0, host_packets: 3, ..reception() });
    assert_eq!(of_hosts.text, ["Only packets of host protocols arrived."]);
    let at_once = receive(&ReceiveFigures { packets: 20, seconds: 0.0, came_pps: 0.0, ..reception() });
    assert_eq!(at_once.bounded_by, Bound::Count);
    assert_eq!(at_once.text, ["Received 20 packets at one time: too short to show a rate."]);
}

/// A direction from which all that arrived left.
fn direction() -> ForwardFigures {
    ForwardFigures {
        command: command("wharf forward packet:a xdp:b"),
        pollers: Some(2),
        kinds: ["packet", "xdp"].map(kind),
        from: "packet:a".into(),
        to: "xdp:b".into(),
        has_bench: true,
        rate: None,
        rate_has_changed: false,
        waits: false,
        received: 1000,
        sent: 1000,
        seconds: 1.0,
        came_pps: 1000.0,
        came_bps: 8e6,
        link_bps: None,
        transmit_ns: None,
        requeues: 0,
        has_byte_limit: true,
        polling: Some(time(0.1, 0.0)),
        drops: BTreeMap::new(),
    }
}

#[test]
fn each_bound_of_a_forwarder_is_told_by_its_own_figures() {
    let dropping = |reason: &str| ForwardFigures { sent: 600, drops: drops(&[(reason, 400)]), ..direction() };
    let codel = || dropping("codel");
    let at = |rate: f64, requeues| ForwardFigures { rate: Some(Rate::new(rate as u64)), requeues, ..codel() };
    let busy = ForwardFigures { polling: Some(time(0.9, 0.0)), ..dropping("overlimit") };
    let cases = [
        (direction(), Bound::Senders, "all that arrived left"),
        (at(8e6, 0), Bound::Rate, "8.00 Mbit/s of --rate 8.00 Mbit/s"),
        (at(12e6, 0), Bound::Rate, "of --rate 12.0 Mbit/s"),
        (ForwardFigures { rate: Some(Rate::packets(1000)), ..codel() }, Bound::Rate, "of --rate 1.00 kpps"),
        (at(12e6, 1), Bound::Device, "xdp:b took no more"),
        (codel(), Bound::Device, "xdp:b took no more"),
        (
            ForwardFigures { transmit_ns: Some(40_000), ..busy.clone() },
            Bound::Processor,
            "took 40.0 us of it: the poller pays",
        ),
        (ForwardFigures { has_byte_limit: false, ..codel() }, Bound::Nothing, "no counter shows a limit"),
        (busy, Bound::Processor, "each poller used"),
        (dropping("ring-full"), Bound::Receiver, "the ring of packet:a was full"),
        (dropping("link-down"), Bound::Link, "the link of xdp:b was down"),
        (
            ForwardFigures { rate_has_changed: true, ..at(12e6, 0) },
            Bound::Rate,
            "changed, to 12.0 Mbit/s at last",
        ),
        (ForwardFigures { rate_has_changed: true, ..at(1e6, 1) }, Bound::Device, "xdp:b took no more"),
        (
            ForwardFigures { received: 0, sent: 0, ..direction() },
            Bound::Nothing,
            "Nothing arrived at packet:a.",
        ),
    ];
    for (figures, bound, says) in cases {
        let verdict = forward(&figures);
        assert_eq!(verdict.bounded_by, bound, "{figures:?}: {verdict:?}");
        assert!(verdict.text[0].contains(says), "{says}: {verdict:?}");
        assert_eq!(verdict.loss.is_some(), !figures.drops.is_empty());
    }
}

#[test]
fn a_full_discipline_that_waits_is_the_cause_of_a_full_ring() {
    let full = ForwardFigures { sent: 600, drops: drops(&[("ring-full", 400)]), ..direction() };
    let [waits, drops] = [true, false].map(|waits| forward(&ForwardFigures { waits, ..full.clone() }));
    let [waits, drops] = [waits, drops].map(|verdict| verdict.loss.unwrap().cause);
    assert!(waits.contains("--when-full drop-tail") && !drops.contains("--when-full"), "{waits} {drops}");
}

#[test]
fn a_loss_is_explained_by_the_row_of_the_end_that_counts_it() {
    static OF_NEWCOMER: [Counted; 2] = [
        Counted::Own { word: "jammed", what_happened: "It was jammed.", what_to_do: "Shake it." },
        Counted::Own { word: "ring-full", what_happened: "Its ring was full.", what_to_do: "Wait." },
    ];
    let newcomer: &'static Kind =
        Box::leak(Box::new(Kind { name: "newcomer", reasons: &OF_NEWCOMER, ..*kind("packet") }));
    let cause = |kinds, jammed, full| {
        let drops = drops(&[("jammed", jammed), ("ring-full", full)]);
        forward(&ForwardFigures { sent: 600, kinds, drops, ..direction() }).loss.unwrap().cause
    };
    let (out, into) = ([kind("packet"), newcomer], [newcomer, kind("packet")]);
    assert_eq!(cause(out, 400, 1), "It was jammed. Shake it.", "the end that sends");
    assert_eq!(cause(into, 400, 1), "It was jammed. Shake it.", "the end that receives");
    assert_eq!(cause(into, 1, 400), "Its ring was full. Wait.");
    assert!(!cause(out, 1, 400).contains("Its ring"), "the ring of the end that receives");
}

#[test]
fn a_program_that_is_not_there_is_no_next_command() {
    let next = |has_bench, figures: SendFigures| send(&SendFigures { has_bench, ..figures }).next;
    let busy = SendFigures { sending: time(1.0, 0.0), kind: kind("null"), to: "null".into(), ..short_of() };
    assert_eq!(next(true, busy.clone()).as_deref(), Some("wharf bench path"));
    assert_eq!(next(false, busy), None);
    let full = || SendFigures { waits: 9, requeues: 7, ..short_of() };
    assert_eq!(next(true, full()).as_deref(), Some("wharf bench device --to packet:eth0"));
    assert_eq!(next(false, full()).as_deref(), Some("wharf explain offered-again"));
    let codel = ForwardFigures { sent: 600, drops: drops(&[("codel", 400)]), ..direction() };
    let next = |has_bench| forward(&ForwardFigures { has_bench, ..codel.clone() }).next;
    assert_eq!((next(true).as_deref(), next(false)), (Some("wharf bench device --to xdp:b"), None));
}

#[test]
fn a_next_command_is_one_that_a_shell_takes() {
    let line =
        CommandLine(["wharf", "send", "--pcap", "it's a file", "--frames=8"].map(String::from).to_vec());
    assert_eq!(line.with("--frames", "16"), r"wharf send --pcap 'it'\''s a file' --frames 16");
}

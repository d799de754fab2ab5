//! Scenarios: the file, virtual time, this machine, and both beside each other.

use proptest::prelude::*;
use std::time::Duration;
use wharf_lab::experiment::{Row, RowKind};
use wharf_lab::scenario::{Comparison, Folder, Machine, Scenario, measure, predict};

fn scenario(text: &str) -> Scenario {
    Scenario::parse("test.toml", text, &Folder("".into())).unwrap()
}

#[track_caller]
fn all(rows: &[Row], metric: &str) -> f64 {
    rows.iter().find(|row| row.label == "all" && row.metric == metric).unwrap().value
}

fn predicted(text: &str, seed: u64) -> Vec<Row> {
    predict(&scenario(text), seed, &mut || true).unwrap()
}

const TWO_KINDS: &str = r#"
settle = "500us"
measure = "2ms"
[[sender]]
count = 2
[[sender]]
burst = 1
arrivals = "poisson:rate=100kpps"
[link]
rate = "1gbit"
"#;

#[test]
fn same_seed_gives_the_same_bytes() {
    let json = |seed| serde_json::to_string(&predicted(TWO_KINDS, seed)).unwrap();
    assert_eq!(json(3), json(3));
    assert_ne!(json(3), json(4));
}

#[test]
fn saturated_link_carries_its_rate_and_no_more() {
    let rows = predicted(TWO_KINDS, 1);
    assert!((99.0..=100.1).contains(&all(&rows, "wire_used")), "{rows:?}");
    // 84 bytes on the wire for 60.
    assert!((all(&rows, "mpps") - 1000.0 / 8.0 / 84.0).abs() < 0.02, "{rows:?}");
    assert!(rows.iter().all(|row| row.kind == RowKind::Predicted && row.value.is_finite()));
    assert!(all(&rows, "delay_p50") > 0.0 && all(&rows, "delay_p50") <= all(&rows, "delay_most"));
}

#[test]
fn light_traffic_leaves_at_the_rate_it_comes() {
    let text = "settle = \"1ms\"\nmeasure = \"20ms\"\n[[sender]]\ncount = 3\nburst = 4\narrivals = \"poisson:rate=200kpps\"\n";
    let rows = predicted(text, 5);
    assert!((all(&rows, "mpps") - 0.6).abs() < 0.06, "{rows:?}");
    let on_off = text.replace("poisson:rate=200kpps", "on-off:on=100us,off=300us");
    let saturated = all(&predicted(&text.replace("poisson:rate=200kpps", "saturate"), 5), "mpps");
    let rows = predicted(&on_off, 5);
    assert!(all(&rows, "mpps") < 0.8 * saturated, "{rows:?}, {saturated}");
}

/// Senders that share a processor take turns: all of them send, and no more than one alone would.
#[test]
fn many_senders_share_few_processors() {
    let machine = Machine { cpus: 1, slice_ns: 20_000, ..Machine::assumed().unwrap() };
    let text = "settle = \"1ms\"\nmeasure = \"4ms\"\n[[sender]]\ncount = 16\n";
    let many = predict(&Scenario { machine, ..scenario(text) }, 1, &mut || true).unwrap();
    let alone = text.replace("16", "1");
    let one = predict(&Scenario { machine, ..scenario(&alone) }, 1, &mut || true).unwrap();
    assert!(all(&many, "jain_senders") > 0.9, "{many:?}");
    assert!(all(&many, "mpps") <= 1.05 * all(&one, "mpps"), "{many:?} {one:?}");
}

/// What others have written into the owner word before the owner gets the line keeps it from leaving. Otherwise the
/// rate of senders that meet there flips between that of long batches and that of packets one by one.
#[test]
fn a_nanosecond_flips_no_rate() {
    let text = "settle = \"100us\"\nmeasure = \"200us\"\n[[sender]]\ncount = 4\nburst = 1\n";
    let figures = |transfer_ns| {
        let machine = Machine { cpus: 2, transfer_ns, ..Machine::assumed().unwrap() };
        let rows = predict(&Scenario { machine, ..scenario(text) }, 1, &mut || true).unwrap();
        [all(&rows, "mpps"), all(&rows, "packets_per_doorbell")]
    };
    let mut before = figures(40)[0];
    for transfer_ns in 41..=100 {
        let [rate, batch] = figures(transfer_ns);
        assert!((0.75..1.25).contains(&(rate / before)), "{transfer_ns} ns: {before} Mpps, then {rate}");
        assert!(batch > 1.5, "{transfer_ns} ns: {batch} packets a doorbell");
        before = rate;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Whatever the file may say: all that enters leaves, in order, and every figure is finite.
    #[test]
    #[cfg_attr(debug_assertions, ignore = "takes long without optimisation; the release suite runs it")]
    fn every_scenario_delivers_all(
        (count, burst, bytes) in (1..9usize, 1..=256usize, 60..=1514u32),
        arrivals in prop::sample::select(vec!["saturate", "poisson:rate=1", "poisson:rate=1gpps", "on-off:on=1us,off=10s", "on-off:on=1ms,off=1us"]),
        link in prop::sample::select(vec!["", "[link]\nrate = \"1tbit\"\n", "[link]\nrate = \"100mbit\"\nring = 65536\n"]),
        queue in prop::sample::select(vec!["", "owner = \"dedicated\"\n", "quota = 1\n", "byte_limit = false\nqdisc = \"prio\"\n", "small_queues = \"4k\"\nqdisc = \"fifo:1\"\n", "qdisc = \"fq_codel\"\n"]),
        (cpus, seed) in (1..6usize, any::<u64>()),
    ) {
        let text = format!(
            "settle = \"10us\"\nmeasure = \"50us\"\nnic = \"ixgbe\"\n{link}[queue]\n{queue}[[sender]]\ncount = {count}\nburst = {burst}\nbytes = {bytes}\narrivals = \"{arrivals}\"\n"
        );
        let machine = Machine { cpus, ..Machine::assumed().unwrap() };
        let rows = predict(&Scenario { machine, ..scenario(&text) }, seed, &mut || true);
        let rows = rows.map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        prop_assert!(rows.iter().all(|row| row.value.is_finite()), "{:?}", rows);
    }
}

#[test]
fn wrong_file_is_an_error_of_one_line() {
    for (text, told) in [
        ("", "missing field `sender`"),
        ("[[sender]]\ncount = 0\n", "sender.count: 0 senders cannot be: 1 to 256 in all"),
        ("[[sender]]\ncount = 300\n", "1 to 256 in all"),
        ("[[sender]]\nburst = 0\n", "sender.burst: 0 cannot be: 1 to 256"),
        ("[[sender]]\nbytes = 59\n", "sender.bytes: 59 cannot be"),
        ("[[sender]]\nband = 7\n", "sender.band: 7 cannot be: 0 to 6"),
        ("[[sender]]\narrivals = \"x\"\n", "\"x\" cannot be: want saturate"),
        ("[[sender]]\narrivals = \"pcap:x\"\n", "sender.arrivals: "),
        (
            "[[sender]]\n[[published]]\nfigure = \"x\"\nvalue = 1\nsource = \"s\"\n",
            "published.figure: x cannot be: one of mpps",
        ),
        ("[[sender]]\nwrong = 1\n", "unknown field `wrong`, expected one of"),
        ("measure = \"0\"\n[[sender]]\n", "measure: 0 cannot be"),
        ("measure = \"2h\"\n[[sender]]\n", "measure: 2h cannot be: at most 2s"),
        ("nic = \"x\"\n[[sender]]\n", "nic: there is no x: there are cx5"),
        ("machine = \"m\"\n[[sender]]\n", "machine: m: No such file"),
        ("[[sender]]\n[link]\nrate = \"1\"\n", "link: "),
        ("[[sender]]\n[link]\nrate = \"1gbit\"\nring = 1\n", "link: a ring of 1 cannot be"),
        ("[[sender]]\n[queue]\nqdisc = \"x\"\n", "queue.qdisc: "),
        ("[[sender]]\n[queue]\nquota = 0\n", "queue.quota: 0 cannot be"),
        ("[[sender]]\n[queue]\nsmall_queues = \"1\"\n", "queue.small_queues: \"1\" cannot be"),
    ] {
        let error = Scenario::parse("test.toml", text, &Folder("".into())).unwrap_err().to_string();
        assert!(
            error.starts_with("test.toml: ") && error.contains(told) && error.lines().count() == 1,
            "{told}: {error}"
        );
    }
}

const BANDS: &str = r#"
settle = "50ms"
measure = "200ms"
[queue]
qdisc = "prio"
small_queues = "off"
[link]
rate = "100mbit"
[[sender]]
bytes = 1514
[[sender]]
band = 0
burst = 1
arrivals = "poisson:rate=1kpps"
"#;

#[track_caller]
fn of_kind(rows: &[Row], kind: usize, metric: &str) -> f64 {
    let label = format!("sender {kind}: ");
    rows.iter().find(|row| row.label.starts_with(&label) && row.metric == metric).unwrap().value
}

/// The first band waits for what the byte limit lets into the device, the other one for the discipline; the limit grows
/// with the time until completions are seen. Delays are measured on this machine, too.
#[test]
fn a_band_goes_first_and_each_kind_of_sender_has_its_delays() {
    let scenario = scenario(BANDS);
    let late = |late_ns| {
        let machine = Machine { late_ns, ..scenario.machine };
        predict(&Scenario { machine, ..scenario.clone() }, 1, &mut || true).unwrap()
    };
    let (soon, late) = (late(0), late(1_000_000));
    let here = measure(&scenario, 1, Duration::from_millis(400), &mut || true).unwrap();
    for rows in [&soon, &late] {
        assert!(of_kind(rows, 2, "delay_p50") < of_kind(rows, 1, "delay_p50") / 4.0, "{rows:?}");
    }
    // By how much is the machine's affair.
    assert!((1..=2).all(|kind| of_kind(&here, kind, "delay_p50") > 0.0), "{here:?}");
    assert!(all(&late, "byte_limit") > 2.0 * all(&soon, "byte_limit"), "{soon:?} {late:?}");
    assert!(of_kind(&late, 2, "delay_p50") > 2.0 * of_kind(&soon, 2, "delay_p50"), "{soon:?} {late:?}");
}

/// CoDel drops packets of the sender that fills its flow; the other one's leave sooner. Both worlds end.
#[test]
fn a_discipline_that_drops_ends_as_others_do() {
    let fair = BANDS.replace("\"prio\"", "\"fq_codel\"").replace("settle = \"50ms\"", "settle = \"400ms\"");
    let scenario = scenario(&fair.replace("band = 0\n", ""));
    let predicted = predict(&scenario, 1, &mut || true).unwrap();
    let here = measure(&scenario, 1, Duration::from_millis(400), &mut || true).unwrap();
    assert!(of_kind(&predicted, 2, "mpps") > 0.0 && all(&predicted, "wire_used") > 50.0, "{predicted:?}");
    assert!(of_kind(&predicted, 2, "delay_p50") < of_kind(&predicted, 1, "delay_p50"), "{predicted:?}");
    assert!(all(&here, "mpps") > 0.0 && all(&here, "delay_p50") > 0.0, "{here:?}");
}

/// The same file over `null` and over a wire: frames in are frames out, and each sender sends.
#[test]
fn the_same_file_runs_on_this_machine() {
    for link in ["", "[link]\nrate = \"100mbit\"\n"] {
        let scenario = scenario(&format!(
            "{link}[[sender]]\ncount = 2\n[[sender]]\nburst = 1\narrivals = \"poisson:rate=5kpps\"\n"
        ));
        let rows = measure(&scenario, 1, Duration::from_millis(60), &mut || true).unwrap();
        assert!(all(&rows, "mpps") > 0.0 && rows.iter().all(|row| row.kind == RowKind::Measured), "{rows:?}");
        assert!(link.is_empty() || all(&rows, "wire_used") <= 115.0, "{rows:?}");
    }
    let interrupted = measure(&scenario("[[sender]]\n"), 1, Duration::from_secs(3600), &mut || false);
    assert!(interrupted.unwrap_err().is_interruption());
}

#[test]
fn a_comparison_has_each_measured_figure_beside_its_prediction() {
    let scenario =
        scenario("settle = \"100us\"\nmeasure = \"1ms\"\n[[sender]]\n[queue]\nowner = \"dedicated\"\n");
    let compared = Comparison::new(&scenario, 1, 3, Duration::from_millis(20), &mut || true).unwrap();
    assert_eq!((compared.rounds, compared.device), (3, "null"));
    let metrics: Vec<&str> = compared.rows.iter().map(|row| row.metric).collect();
    assert!(["mpps", "jain_senders"].iter().all(|metric| metrics.contains(metric)), "{metrics:?}");
    for row in &compared.rows {
        assert!(row.spread[0] <= row.measured && row.measured <= row.spread[1], "{row:?}");
    }
}

/// Returns a capture with a packet every `gap_ns`.
fn capture(packets: u32, gap_ns: u32) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = words(&[0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 1]);
    for packet in 0..packets {
        file.extend(words(&[7, packet * gap_ns, 60, 60]));
        file.extend([0; 60]);
    }
    file
}

#[test]
fn packets_come_at_the_times_of_a_capture_and_again() {
    let folder = std::env::temp_dir().join(format!("wharf-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("t.pcap"), capture(100, 10_000)).unwrap();
    let text = "settle = \"1ms\"\nmeasure = \"20ms\"\n[[sender]]\nburst = 5\narrivals = \"pcap:t.pcap\"\n\
                [[published]]\nfigure = \"mpps\"\nvalue = 0.2\nsource = \"somewhere\"\n";
    let read = |text: &str| Scenario::parse("test.toml", text, &Folder(folder.clone()));
    let rows = predict(&read(text).unwrap(), 1, &mut || true).unwrap();
    let few = read(&text.replace("burst = 5", "burst = 101")).unwrap_err().to_string();
    let none = read(&text.replace("t.pcap", "u.pcap")).unwrap_err().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!((all(&rows, "mpps") - 0.1).abs() < 0.005, "{rows:?}");
    let note = rows[0].note.as_deref().unwrap_or_default();
    assert!(rows[0].published == Some(0.2) && note.contains("-5") && note.contains("somewhere"), "{note}");
    assert!(few.contains("100 packets are less than a burst of 101"), "{few}");
    assert!(none.starts_with("test.toml: sender.arrivals: ") && none.lines().count() == 1, "{none}");
}

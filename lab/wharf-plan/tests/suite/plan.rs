//! Answers of the planner: limits, features, mixtures, pictures.

use proptest::prelude::*;
use wharf_plan::nics::{Choice, Description, Mark, ONE};
use wharf_plan::plan::*;

/// Leaves the pace of the NIC itself out.
const FAST_NIC: (&str, &str) = ("tx.entry.nic_ps", "0");

fn question(link: &str, size: u32, features: &[(&str, bool)], sets: &[(&str, &str)]) -> Question {
    let features = features.iter().map(|(name, on)| (name.to_string(), *on)).collect();
    let set =
        |(key, value): &(&str, &str)| (key.to_string(), value.to_string(), Mark::Given, "test".to_string());
    Question {
        load: Load::one_size(size),
        cores: 12,
        direction: Direction::Tx,
        target: None,
        link: Some(link.parse().unwrap()),
        choice: Choice { features, sets: sets.iter().map(set).collect(), ..Choice::default() },
    }
}

fn ask(nic: &str, question: &Question) -> Plan {
    plan(&Description::built_in(nic).unwrap().unwrap(), question).unwrap()
}

/// Returns the bus's limit alone, in units of 100 kpps.
fn bus(nic: &str, direction: Direction, question: &Question) -> u64 {
    let plan = ask(nic, question);
    let outcome = &plan.outcomes[direction as usize];
    let least = outcome.limit(Part::BusToNic).unwrap().min(outcome.limit(Part::BusToHost).unwrap());
    (least + 50_000) / 100_000
}

/// 64-byte packets over 16 lanes, MPS 256, MRRS 512, no interrupts: generations 3 and 4.
#[test]
fn packets_that_the_bus_allows_in_units_of_100_kpps() {
    use Direction::{Rx, Tx};
    let off = &[("xmit_more", false)][..];
    let compressed = &[("rx_cqe_compress", true), ("rx_striding_rq", true)][..];
    let session = &[("rx.completion.every", "8")][..];
    let rows = [
        ("simple", Tx, &[][..], &[][..], 960, 1921),
        ("ixgbe", Tx, off, &[], 1097, 2195),
        ("ixgbe", Tx, &[], &[], 1388, 2777),
        ("ixgbe", Rx, &[], &[], 935, 1870),
        ("ixgbe", Rx, &[("rx_descriptor_batch", true)], &[], 1283, 2567),
        ("cx5", Tx, off, &[], 711, 1421),
        ("cx5", Tx, &[], &[], 923, 1846),
        ("cx5", Rx, &[], &[], 804, 1608),
        ("cx5", Tx, &[("xdp_tx_mpwqe", true)], &[], 1387, 2774),
        ("cx5", Tx, &[("xdp_tx_inline", true)], &[], 1527, 3053),
        ("cx5", Rx, compressed, &[], 1416, 2832),
        ("cx5", Rx, compressed, session, 1292, 2584),
    ];
    for (nic, direction, features, sets, gen3, gen4) in rows {
        let at = |link| bus(nic, direction, &question(link, 64, features, sets));
        assert_eq!((at("gen3x16"), at("gen4x16")), (gen3, gen4), "{nic} {direction:?} {features:?}");
    }
}

#[test]
fn the_wire_is_ethernet() {
    let plan = ask("cx5", &question("gen4x16", 64, &[], &[]));
    assert_eq!(plan.outcomes[0].limit(Part::Wire), Some(148_809_523));
    let plan = ask("ixgbe", &question("gen3x16", 1518, &[], &[]));
    assert_eq!(plan.outcomes[0].limit(Part::Wire), Some(812_743));
}

/// Published figures of this NIC, and those of its description, which was not fitted to them.
#[test]
fn published_packet_rates_are_near() {
    let rate = |features: &[(&str, bool)], direction: Direction| {
        // 24 rings, as in the publication: the bus binds.
        let question = Question { cores: 24, ..question("gen3x16", 64, features, &[]) };
        ask("cx5", &question).outcomes[direction as usize].pps / 10_000
    };
    let compress = ("rx_cqe_compress", true);
    // Dropped: 83 Mpps, with compressed completions 130, milestone 135.
    assert_eq!(rate(&[], Direction::Rx), 8041);
    assert_eq!(rate(&[compress], Direction::Rx), 14_054);
    // Sent back: 70 Mpps on one port, 100 with multi-packet entries.
    assert_eq!(rate(&[], Direction::Both), 6882);
    assert_eq!(rate(&[compress, ("xdp_tx_mpwqe", true)], Direction::Both), 11_149);
}

#[test]
fn both_directions_add_up_on_the_bus() {
    let plan = ask("cx5", &question("gen3x16", 64, &[], &[]));
    let [tx, rx, both] = plan.outcomes.map(|outcome| outcome.cost);
    assert_eq!(both, tx + rx);
}

#[test]
fn reads_in_flight_are_latency_times_rate() {
    // 60 reads in flight at 600 ns are 100 million a second; a packet and an eighth of a fetch each.
    let question = question("gen5x16", 64, &[], &[("tags", "60"), ("latency_ns", "600")]);
    let tags = ask("cx5", &question).outcomes[0].limit(Part::Tags).unwrap();
    assert_eq!(tags, 100_000_000 * 8 / 9);
}

#[test]
fn small_part_binds() {
    let cases = [
        ("wire_bits_per_second", "1000000", Part::Wire),
        ("tags", "1", Part::Tags),
        ("doorbell_ns", "1000000000", Part::Cpu),
        ("tx.cpu_cycles", "1000000", Part::Cpu),
        ("tx.page_shared_ns", "1000000", Part::Memory),
        ("tx.entry.bytes", "4096", Part::BusToNic),
        ("tx.completion.bytes", "65536", Part::BusToHost),
    ];
    for (key, value, part) in cases {
        let outcome = ask("cx5", &question("gen3x16", 64, &[], &[(key, value)])).outcomes[0].clone();
        assert_eq!(outcome.binding, part, "{key}");
        assert_eq!(outcome.limit(part), Some(outcome.pps), "{key}");
    }
    let few = &[("fetches_in_flight", "1"), ("queues", "1")];
    assert_eq!(ask("cx5", &question("gen3x16", 64, &[], few)).outcomes[0].binding, Part::DescriptorFetch);
}

#[test]
fn a_mixture_is_the_mean_of_its_sizes() {
    let imix = Question { load: Load::imix(), ..question("gen3x16", 64, &[], &[]) };
    assert_eq!(imix.load.packet_bytes(), 361_833_333_333);
    let of = |size| ask("ixgbe", &question("gen3x16", size, &[], &[])).outcomes[0].cost.to_nic_bytes;
    let mean = (7 * of(64) + 4 * of(594) + of(1518) + 6) / 12;
    assert_eq!(ask("ixgbe", &imix).outcomes[0].cost.to_nic_bytes, mean);
}

#[test]
fn answer_names_the_limits() {
    let mut question = question("gen3x16", 64, &[], &[]);
    question.target = Some(Target::Bits(200_000_000_000));
    let answer = ask("cx5", &question).answer;
    assert_eq!((answer.reached, answer.target_pps), (false, 297_619_047));
    let parts: Vec<Part> = answer.stops.iter().map(|limit| limit.part).collect();
    assert_eq!(parts, [Part::Nic, Part::BusToNic, Part::Wire, Part::Cpu]);
    let begins = "Can it send 200 Gbit/s of packets of 60 bytes (64 with check sequence), 297.62 Mpps? No: it comes to 70";
    assert!(answer.words.starts_with(begins), "{}", answer.words);
    assert!(answer.words.contains("stopped by the NIC's own rate"), "{}", answer.words);
    question.target = Some(Target::Packets(60_000_000));
    let answer = ask("cx5", &question).answer;
    assert!(
        answer.reached && answer.words.contains("Yes, if what is only assumed holds ("),
        "{}",
        answer.words
    );
}

/// In 2014 bulk dequeue raised 12.8 Mpps to the wire's 14.8: the NIC serves one doorbell at a time.
#[test]
fn batching_buys_something_where_the_nic_serves_doorbells_one_by_one() {
    let plan = ask("ixgbe", &question("gen2x8", 64, &[("xmit_more", false)], &[]));
    let outcome = &plan.outcomes[0];
    assert_eq!((outcome.binding, outcome.pps / 10_000), (Part::Nic, 1282));
    let batching = plan.features.iter().find(|feature| feature.name == "xmit_more").unwrap();
    assert!(batching.with[0] == outcome.limit(Part::Wire).unwrap() && batching.with[0] > batching.without[0]);
    let lines = plan.confirmation(Direction::Tx, "eth0").join("\n");
    assert!(lines.contains("To confirm that the limit is the NIC's own rate: the rate stays"), "{lines}");
}

/// Both are read from one description, and each built-in one names a counter for what limits it.
#[test]
fn every_limit_has_a_counter_that_confirms_it() {
    for part in Part::ALL {
        for is_mlx5 in [false, true] {
            assert!(part.confirmed_by(is_mlx5).len() > 20, "{part:?}");
        }
    }
    let plan = ask("cx5", &question("gen3x16", 64, &[], &[FAST_NIC]));
    let lines = plan.confirmation(Direction::Tx, "eth0").join("\n");
    assert!(lines.contains("ethtool -S eth0") && lines.contains("outbound_pci_stalled_rd"), "{lines}");
    assert!(lines.contains("published points"), "{lines}");
}

#[test]
fn features_are_judged_alone_and_together() {
    let plan = ask("cx5", &question("gen3x16", 64, &[], &[FAST_NIC]));
    let of = |name: &str| plan.features.iter().find(|feature| feature.name == name).unwrap();
    assert!(of("xmit_more").on && of("xmit_more").with[0] == plan.outcomes[0].pps);
    assert!(of("xmit_more").without[0] < plan.outcomes[0].pps);
    assert!(of("xdp_tx_mpwqe").with[0] > plan.outcomes[0].pps && !of("xdp_tx_mpwqe").on);
    assert_eq!(of("rx_cqe_compress").with[0], plan.outcomes[0].pps, "nothing for sending");
    // tx_push excludes multi-packet entries: it is judged without them.
    let mpwqe = ask("cx5", &question("gen3x16", 64, &[("xdp_tx_mpwqe", true)], &[FAST_NIC]));
    let push = mpwqe.features.iter().find(|feature| feature.name == "tx_push").unwrap();
    assert!(push.with[0] < mpwqe.outcomes[0].pps);
    let best = plan.features.iter().map(|feature| feature.with[2]).max().unwrap();
    assert!(plan.together[2].pps >= best, "{:?}", plan.together_on);
    // Features switched off by hand stay off.
    let off = ask("cx5", &question("gen3x16", 64, &[("rx_cqe_compress", false)], &[]));
    assert!(!off.together_on.iter().any(|name| name == "rx_cqe_compress"));
}

/// With any features on or off, the answer in words offers what the table of features shows to be more.
#[test]
fn answer_offers_helpful_features() {
    for nic in Description::names() {
        let description = Description::built_in(nic).unwrap().unwrap();
        for name in description.features().iter().map(|feature| feature.name.as_str()) {
            for (on, direction) in [(true, Direction::Tx), (false, Direction::Rx), (false, Direction::Both)] {
                let asked = Question { direction, ..question("gen3x16", 64, &[(name, on)], &[]) };
                let asked = Question { target: Some(Target::Bits(900_000_000_000)), ..asked };
                let (plan, at) = (plan(&description, &asked).unwrap(), direction as usize);
                let alone = plan.features.iter().map(|one| one.with[at].max(one.without[at])).max().unwrap();
                let helps = alone.max(plan.together[at].pps) > plan.outcomes[at].pps;
                let words = &plan.answer.words;
                assert_eq!(words.contains("No feature helps"), !helps, "{nic} {name} {on}: {words}");
            }
        }
    }
    let off = ask("simple", &question("gen3x8", 64, &[("xmit_more", false)], &[]));
    assert!(
        off.answer.words.contains("With xmit_more on it comes to 59.52 Mpps (40 Gbit/s): that is enough.")
    );
    // Two features exclude each other: the better one goes into the set.
    let off = ask("cx5", &question("gen3x16", 64, &[("skb_tx_mpwqe", false)], &[]));
    assert!(off.together_on.iter().any(|name| name == "xdp_tx_inline"), "{:?}", off.together_on);
    // A feature that conflicts with a setting is left out; the plan is still made.
    let set = ask("cx5", &question("gen3x16", 64, &[], &[("tx.entry.off", "true")]));
    assert!(!set.features.iter().any(|feature| feature.name == "xdp_tx_mpwqe") && set.features.len() > 3);
}

/// The rows of transfers add up to the whole, also for mixtures.
#[test]
fn transfers_add_up_to_the_bus_bytes() {
    for features in [&[][..], &[("xdp_tx_inline", true)]] {
        let asked = Question { load: Load::imix(), ..question("gen3x16", 64, features, &[]) };
        let report = Report::new(&ask("cx5", &asked), &asked, &[]);
        let of = |way: &str| report.transfers.iter().filter(|row| row.way == way).collect::<Vec<_>>();
        for (way, direction) in [("tx", 0), ("rx", 1)] {
            let bus = &report.directions[direction].bus;
            let sum: f64 = of(way).iter().map(|row| row.to_nic_bytes).sum();
            assert!((sum - bus.to_nic_bytes).abs() < 0.01, "{way}: {sum} {}", bus.to_nic_bytes);
        }
    }
}

/// Descriptions may be absurd: a number too large to count is the largest there is.
#[test]
fn absurd_sizes_saturate() {
    let absurd = |name: &str, session: &str| {
        format!("[tx.{name}]\nby = \"nic_write\"\nbytes = 65536\npacket_bytes = 65536\nevery = {session}\n")
    };
    let within = |name: &str| absurd(name, "65536") + "within = \"doorbell\"\n";
    let own: String = ["index", "ring", "mini_completion", "interrupt", "completion"].map(within).concat();
    let text = include_str!("../../nics/cx5.toml");
    let (start, rest) = text.split_once("[tx.doorbell]").unwrap();
    let (_, rx) = rest.split_once("[rx.cpu_cycles]").unwrap();
    let (rx, _) = rx.split_once("[features.xmit_more]").unwrap();
    let text = format!("{start}{}{own}[rx.cpu_cycles]{rx}", absurd("doorbell", "1"));
    let asked = question("gen3x16", 64, &[], &[]);
    let plan = plan(&Description::parse("absurd.toml", &text).unwrap(), &asked).unwrap();
    assert_eq!(plan.outcomes[2].cost.to_host_bytes, u64::MAX);
    let report = Report::new(&plan, &asked, &[]);
    assert!(report.directions[2].bus.to_host_bytes > 1e10);
}

#[test]
fn sweep_and_load_errors_list_the_allowed() {
    let sizes: Vec<u32> = "size=60..96,step=16".parse::<Sweep>().unwrap().sizes().collect();
    assert_eq!(sizes, [64, 80, 96, 100]);
    assert_eq!("size=60..1514".parse::<Sweep>().unwrap().sizes().count(), 1455);
    for wrong in
        ["", "64..100", "size=100..64", "size=1..64", "size=64..100,step=0", "size=64", "size=64..99999"]
    {
        assert!(wrong.parse::<Sweep>().is_err(), "{wrong}");
    }
    assert_eq!(
        Load::parse("0").unwrap_err().to_string(),
        "want a frame without its check sequence, 60 to 16380 bytes"
    );
    assert!(Load::parse("60").is_ok() && Load::parse("59").is_err() && Load::parse("x").is_err());
}

#[test]
fn picture_shows_the_outcome() {
    let question = question("gen3x16", 64, &[], &[FAST_NIC]);
    let description = Description::built_in("cx5").unwrap().unwrap();
    let plan = plan(&description, &question).unwrap();
    let rows = sweep(&description, &question, &"size=64..1518,step=50".parse().unwrap()).unwrap();
    let svg = chart::svg(&plan, &question, &rows).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for words in
        ["as it is", "with all features", "bus towards the NIC", "rate on the wire, Gbit/s", "prefers-color"]
    {
        assert!(svg.contains(words), "{words}");
    }
    assert!(chart::svg(&plan, &question, &[]).is_err());
    // One size is a picture too, in which every line can be seen: each has two ends.
    let one = chart::svg(&plan, &question, &rows[..1]).unwrap();
    let ends = |line: &str| line.split(['"', ' ']).filter(|at| at.contains(',')).count();
    let wide = |line: &&str| line.starts_with("<polyline") && line.contains("stroke-width=\"5\"");
    assert_eq!(one.lines().filter(wide).filter(|line| ends(line) == 2).count(), 2, "{one}");
}

#[test]
fn a_page_folds_what_has_no_effect_and_shows_the_commands() {
    let question = question("gen3x16", 64, &[], &[FAST_NIC]);
    let description = Description::built_in("cx5").unwrap().unwrap();
    let plan = plan(&description, &question).unwrap();
    let rows = sweep(&description, &question, &"size=64..1518,step=50".parse().unwrap()).unwrap();
    let svg = chart::svg(&plan, &question, &rows).unwrap();
    let page = page(&plan, &question, &svg, ("ens1", "wharf plan --nic cx5", "a < b"));
    assert!(page.contains("a &lt; b") && page.contains(&svg) && page.contains("prefers-color-scheme:dark"));
    for outside in ["src=", "http:", "https:", "<script", "url("] {
        let fetched = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assert!(!fetched.contains(outside), "{outside}");
    }
    // Sending gains nothing from what the receive side has.
    assert_eq!(plan.without_effect(Direction::Tx), ["page_pool", "rx_cqe_compress", "rx_striding_rq"]);
    let table = page.split("what it does").nth(1).unwrap().split("</table>").next().unwrap();
    assert!(table.contains("xdp_tx_mpwqe") && !table.contains("rx_cqe_compress</td>"), "{table}");
    assert!(page.contains("No effect here: 3</summary><p>page_pool, rx_cqe_compress, rx_striding_rq</p>"));
    // A command switches on each feature that is off and helps; a feature without a switch has none.
    let on = |name: &str| format!("ethtool --set-priv-flags ens1 {name} on");
    assert_eq!(plan.improvements(Direction::Tx, "ens1"), [on("skb_tx_mpwqe"), on("xdp_tx_mpwqe")]);
    assert!(page.contains(&on("xdp_tx_mpwqe")) && page.contains("driver mlx5_core"));
}

/// A feature that is on and helps needs no command.
#[test]
fn commands_are_for_what_is_not_so_yet() {
    let on = question("gen3x16", 64, &[("xdp_tx_mpwqe", true)], &[]);
    let commands = ask("cx5", &on).improvements(Direction::Tx, "IF");
    assert!(commands.iter().all(|command| !command.contains("xdp_tx_mpwqe")), "{commands:?}");
    let virtio = ask("virtio", &question("gen3x16", 64, &[], &[]));
    assert_eq!(virtio.improvements(Direction::Tx, "IF"), Vec::<String>::new(), "no command switches it");
}

fn any_question() -> impl Strategy<Value = (usize, Question)> {
    let sizes = || proptest::sample::select(vec![128u32, 256, 512, 1024, 2048, 4096]);
    let lanes = proptest::sample::select(vec![1u32, 2, 4, 8, 16, 32]);
    let link = (1u32..=6, lanes, sizes(), sizes())
        .prop_map(|(generation, lanes, mps, mrrs)| format!("gen{generation}x{lanes},mps={mps},mrrs={mrrs}"));
    (0usize..7, link, 64u32..16384, 1u32..=4096)
        .prop_map(|(nic, link, size, cores)| (nic, Question { cores, ..question(&link, size, &[], &[]) }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_answer_is_the_least_of_its_parts((nic, question) in any_question()) {
        let plan = ask(Description::names().nth(nic).unwrap(), &question);
        for outcome in plan.outcomes.iter().chain(&plan.together) {
            prop_assert_eq!(outcome.limits.iter().filter_map(|limit| limit.pps).min(), Some(outcome.pps));
            prop_assert_eq!(outcome.limit(outcome.binding), Some(outcome.pps));
            prop_assert!(outcome.pps > 0);
        }
        prop_assert!(plan.outcomes[2].pps <= plan.outcomes[0].pps.min(plan.outcomes[1].pps));
    }

    #[test]
    fn more_is_never_less((nic, question) in any_question()) {
        let name = Description::names().nth(nic).unwrap();
        let pps = |question: &Question| ask(name, question).outcomes.map(|outcome| outcome.pps);
        let more_cores = Question { cores: question.cores + 1, ..question.clone() };
        let larger = Question {
            load: Load::one_size(u32::try_from((question.load.packet_bytes() / ONE) + 1).unwrap()),
            ..question.clone()
        };
        let (now, cores, larger) = (pps(&question), pps(&more_cores), pps(&larger));
        for at in 0..3 {
            prop_assert!(cores[at] >= now[at]);
            prop_assert!(larger[at] <= now[at]);
        }
    }
}

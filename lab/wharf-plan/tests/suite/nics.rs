//! Descriptions of NICs: bytes of a packet, settings, features, and faults of files.

use wharf_plan::nics::*;

fn nic(name: &str, features: &[(&str, bool)], sets: &[(&str, &str)]) -> Nic {
    let features = features.iter().map(|(name, on)| (name.to_string(), *on)).collect();
    let set =
        |(key, value): &(&str, &str)| (key.to_string(), value.to_string(), Mark::Given, "test".to_string());
    let choice = Choice { features, sets: sets.iter().map(set).collect(), ..Choice::default() };
    Description::built_in(name).unwrap().unwrap().nic(&choice).unwrap()
}

/// Hundredths of a byte, to the NIC and to the host.
fn hundredths(way: &Way, link: &str, size: u32) -> (u64, u64) {
    let cost = way.cost(&link.parse().unwrap(), size);
    let hundredths = |billionths: u64| (billionths + 5_000_000) / 10_000_000;
    (hundredths(cost.to_nic_bytes), hundredths(cost.to_host_bytes))
}

const LINK: &str = "gen3x16,mps=256,mrrs=512";

/// Bytes per packet, worked out by hand from the pieces named beside them.
#[test]
fn bytes_per_packet_of_the_published_cases() {
    let off = [("xmit_more", false)];
    let mpwqe = [("xdp_tx_mpwqe", true)];
    let inline = [("xdp_tx_inline", true)];
    let rows = [
        // tail 28, descriptor 36, packet 84; two requests 48, write-back 40
        (nic("simple", &[], &[]).tx, (14_800, 8_800)),
        // descriptors 700/40, requests 48/40, write-back 152/8
        (nic("ixgbe", &off, &[]).tx, (12_950, 4_420)),
        // tail 28/32
        (nic("ixgbe", &[], &[]).tx, (10_238, 4_420)),
        // tail 28/32, descriptor 36; request 24, packet 88, write-back 40
        (nic("ixgbe", &[], &[]).rx, (3_688, 15_200)),
        // descriptors 552/32; request 24/32, write-back 88/4
        (nic("ixgbe", &[("rx_descriptor_batch", true)], &[]).rx, (1_813, 11_075)),
        // entry 84, doorbell 32, packet 84; two requests 48, completion 88
        (nic("cx5", &off, &[]).tx, (20_000, 13_600)),
        // entries 552/8, doorbell 32/32; request 24/8, completion 88/32
        (nic("cx5", &[], &[]).tx, (15_400, 2_975)),
        // entries 552/32; packet 88, completion 88, request 24/32
        (nic("cx5", &[], &[]).rx, (1_725, 17_675)),
        // entry (960 + 80)/58, doorbell 32/58; requests 48/58, completion 88/58
        (nic("cx5", &mpwqe, &[]).tx, (10_248, 2_634)),
        // entry of 32 + 11 x 80 bytes: (912 + 80)/11, doorbell 32/11; requests 48/11, completion 88/11
        (nic("cx5", &inline, &[]).tx, (9_309, 1_236)),
        // doorbell 28/32, entries 148/8, packet 84; request 24/8 and 24, write-back 40
        (nic("e810", &[], &[]).tx, (10_338, 6_700)),
        // doorbell 28/16, entries 276/8; request 24/8, packet 88, write-back 56
        (nic("e810", &[], &[]).rx, (3_625, 14_700)),
        // entry with the packet in it 152, doorbell 28/32; completion 32
        (nic("ena", &[], &[]).tx, (15_288, 3_200)),
    ];
    for (way, bytes) in rows {
        assert_eq!(hundredths(&way, LINK, 64), bytes, "{way:?}");
    }
}

#[test]
fn bytes_per_packet_of_compressed_completions() {
    let compressed = [("rx_cqe_compress", true), ("rx_striding_rq", true)];
    let session =
        |every| hundredths(&nic("cx5", &compressed, &[("rx.completion.every", every)]).rx, LINK, 64);
    // A doorbell for 64; a title for 64, and eight slots.
    assert_eq!(session("64"), (50, 10_038));
    assert_eq!(session("8"), (50, 11_000));
    // Four packets still take a slot, and twelve take two.
    assert_eq!(session("4"), (50, 8_800 + 2 * 8_800 / 4));
    assert_eq!(session("12"), (50, 8_800 + 3 * 8_800 / 12));
}

#[test]
fn features_that_build_on_another_come_after_it() {
    // xmit_more is on by itself: its batch of 8 must not cut a multi-packet entry.
    let both = nic("cx5", &[("xmit_more", true), ("xdp_tx_mpwqe", true)], &[]);
    let alone = nic("cx5", &[("xmit_more", false), ("xdp_tx_mpwqe", true)], &[]);
    assert_eq!(both.tx.cost(&both.link, 64), alone.tx.cost(&alone.link, 64));
    // A pushed entry needs no fetch, and each packet its own.
    let push = nic("cx5", &[("tx_push", true)], &[]);
    assert_eq!(hundredths(&push.tx, LINK, 64), (8_800 + 8_400, 2_400 + 275));
    assert_eq!(push.tx.cost(&push.link, 64).fetches, 0);
}

#[test]
fn packets_too_large_are_not_inlined() {
    let inline = nic("cx5", &[("xdp_tx_inline", true)], &[]);
    let pointers = nic("cx5", &[("xdp_tx_mpwqe", true)], &[]);
    for (size, alike) in [(64, false), (252, false), (253, true), (1518, true)] {
        let same = inline.tx.cost(&inline.link, size) == pointers.tx.cost(&pointers.link, size);
        assert_eq!(same, alike, "{size}");
    }
}

#[test]
fn built_in_numbers_have_an_origin() {
    for name in Description::names() {
        let description = Description::built_in(name).unwrap().unwrap();
        assert_eq!(description.nic(&Choice::default()).unwrap().name, name);
        let mut choices = vec![Choice::default()];
        for feature in description.features() {
            assert!(feature.mark != Mark::Given && !feature.what.is_empty(), "{name}: {feature:?}");
            choices.push(Choice { features: [(feature.name.clone(), true)].into(), ..Choice::default() });
        }
        for choice in choices {
            let nic = description.nic(&choice).unwrap();
            let transfers = nic.tx.transfers.iter().chain(&nic.rx.transfers);
            let origins = transfers.map(|one| (one.mark, &one.source));
            for (mark, source) in nic.figures().into_iter().map(|one| (one.mark, &one.source)).chain(origins)
            {
                assert!(
                    mark != Mark::Given && source.len() > 5 && !source.ends_with(".toml"),
                    "{name}: {source}"
                );
            }
        }
    }
    assert_eq!(Description::of_driver("mlx5_core").unwrap().file(), "cx5.toml");
    assert!(Description::of_driver("veth").is_none() && Description::built_in("x").is_none());
}

/// Returns a description with one thing changed.
fn changed(from: &str, to: &str) -> String {
    let text = include_str!("../../nics/ixgbe.toml");
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

fn fault(text: &str) -> String {
    let message = Description::parse("my.toml", text).unwrap_err().to_string();
    assert!(!message.contains('\n') && message.starts_with("my.toml: "), "{message:?}");
    message["my.toml: ".len()..].to_string()
}

/// Checks that each text is an error of one line with this message, or one that begins so if it ends in a
/// space.
#[track_caller]
fn told(cases: &[(String, &str)]) {
    for (text, message) in cases {
        let told = fault(text);
        let begins = message.ends_with(' ') && told.starts_with(message);
        assert!(told == *message || begins, "{told}\nnot {message}");
    }
}

#[test]
fn wrong_link_or_plan_error_lists_the_allowed() {
    told(&[
        (changed("lanes = 8", "lanes = 3"), "link.lanes: 3 cannot be: one of 1, 2, 4, 8, 12, 16, 32"),
        (
            changed("generation = 2", "generation = 9"),
            "link.generation: 9 cannot be: one of 1, 2, 3, 4, 5, 6",
        ),
        (
            changed("lanes = 8", "lanes = 8\nmps = 100"),
            "link.mps: 100 cannot be: one of 128, 256, 512, 1024, 2048, 4096",
        ),
        (
            changed("lanes = 8", "lanes = 8\nwidth = 8"),
            "link.width: unknown key; there are generation, lanes, mps, mrrs, rcb, completions",
        ),
        (
            changed("[link]", "[plan]\nsize = 0\n[link]"),
            "plan.size: 0 cannot be: a whole number from 64 to 16384",
        ),
        (
            changed("[link]", "[plan]\ncores = -1\n[link]"),
            "plan.cores: -1 cannot be: a whole number from 1 to 4096",
        ),
        (changed("[link]", "[plan]\ncolour = 1\n[link]"), "plan.colour: unknown key; there are size, cores"),
    ]);
}

#[test]
fn wrong_transfer_error_lists_the_allowed() {
    told(&[
        (changed("batch = 40", "batch = 0"), "tx.entry.batch: 0 cannot be: a whole number from 1 to 65536"),
        (
            changed("batch = 40", "batch = 4.5"),
            "tx.entry.batch: 4.5 cannot be: a whole number from 1 to 65536",
        ),
        (
            changed("batch = 40", "batches = 40"),
            "tx.entry.batches: unknown key; there are by, mark, source, bytes, packet_bytes, payload, every, batch, follows, within, bytes_max, inline, nic_ps, off",
        ),
        (
            changed("by = \"nic_read\"", "by = \"magic\""),
            "tx.entry.by: \"magic\" cannot be: one of write_to_nic, nic_read, nic_write, read_from_nic",
        ),
        (changed("by = \"write_to_nic\"\n", ""), "tx.doorbell.by: is missing"),
        (
            changed("[tx.entry]", "[tx.entries]"),
            "tx.entries: unknown key; there are cpu_cycles, buffer_bytes, page_cycles, page_shared_ns, doorbell, index, ring, entry, packet, completion, mini_completion, interrupt",
        ),
        (
            changed("payload = true", "payload = true\nevery = 2"),
            "tx.packet.payload: true cannot be: a packet is not shared (every, batch, follows)",
        ),
        (
            changed("batch = 40", "follows = \"packets\""),
            "tx.entry.follows: \"packets\" cannot be: a transfer here that follows none",
        ),
    ]);
}

#[test]
fn wrong_feature_error_lists_the_allowed() {
    told(&[
        (changed("default = true", "default = 1"), "features.xmit_more.default: 1 cannot be: true or false"),
        (
            changed("default = true", "excludes = [\"x\"]"),
            "features.xmit_more.excludes: names no feature of this file",
        ),
        (
            changed("[features.xmit_more]", "[features.\"a\\nb\"]"),
            "features.a\\nb: cannot be: a name has no control characters",
        ),
    ]);
}

#[test]
fn wrong_name_or_figure_error_lists_the_allowed() {
    told(&[
        (
            changed("mark = \"published\"", "mark = \"sure\""),
            "wire_bits_per_second.mark: \"sure\" cannot be: one of published, fitted, assumed, given, read",
        ),
        (
            changed("name = \"ixgbe\"", "name = 5"),
            "name: 5 cannot be: a text of one line, without control characters",
        ),
        (
            changed("name = \"ixgbe\"", "name = \"a\\u001bb\""),
            "name: \"a\\u{1b}b\" cannot be: a text of one line, without control characters",
        ),
        (changed("name = \"ixgbe\"\n", ""), "name: is missing"),
        (changed("[queues]", "[queue]"), "queues: is missing"),
        (
            changed("[queues]", "speed = 5\n[queues]"),
            "wire_bits_per_second.speed: unknown key; there are value, mark, source",
        ),
        (changed("value = 64", "value = 0"), "queues.value: 0 cannot be: a whole number from 1 to 65536"),
        (changed("[link]", "[link"), "line 8: "),
        (changed("batch = 8", "batch = 8\nbatch = 9"), "line "),
        (String::new(), "name: is missing"),
        ("#".repeat(2_000_000), "file: larger than 1048576 bytes: is this a description?"),
    ]);
}

#[test]
fn wrong_choices_are_errors() {
    let description = Description::built_in("cx5").unwrap().unwrap();
    let fault = |features: &[(&str, bool)], sets: &[(&str, &str)]| {
        let features = features.iter().map(|(name, on)| (name.to_string(), *on)).collect();
        let set =
            |(key, value): &(&str, &str)| (key.to_string(), value.to_string(), Mark::Given, "test".into());
        let choice = Choice { features, sets: sets.iter().map(set).collect(), ..Choice::default() };
        description.nic(&choice).unwrap_err().to_string()
    };
    assert!(
        fault(&[("fast", true)], &[])
            .starts_with("cx5.toml: features.fast: no such feature; there are page_pool, ")
    );
    let both = [("tx_push", true), ("xdp_tx_mpwqe", true)];
    assert_eq!(fault(&both, &[]), "cx5.toml: features.tx_push: not together with xdp_tx_mpwqe");
    assert_eq!(
        fault(&[], &[("tags", "0")]),
        "cx5.toml: tags.value: 0 cannot be: a whole number from 1 to 65536"
    );
    assert_eq!(fault(&[], &[("tx.entry", "1")]), "cx5.toml: tx.entry: no such number to set");
    assert_eq!(fault(&[], &[("tx.speed.every", "1")]), "cx5.toml: tx.speed.every: no such number to set");
    // These would change nothing: features are switched, and a plan's size and cores have options.
    for key in ["features.xmit_more.default", "plan.size"] {
        assert_eq!(fault(&[], &[(key, "1")]), format!("cx5.toml: {key}: no such number to set"));
    }
    assert!(
        fault(&[("a\nb\x1b", true)], &[]).starts_with("cx5.toml: features.a\\nb\\u{1b}: no such feature")
    );
    assert!(
        fault(&[], &[("tx.entry.evry", "1")])
            .starts_with("cx5.toml: tx.entry.evry: unknown key; there are by, ")
    );
    assert_eq!(
        fault(&[], &[("rx.completion.every", "x")]),
        "cx5.toml: rx.completion.every: \"x\" cannot be: a whole number from 1 to 65536"
    );
}

#[test]
fn number_without_source_is_the_users() {
    let text = changed("[tags]\nvalue = 32\nmark = \"assumed\"\nsource = \"5-bit tags\"\n", "").replacen(
        "name = \"ixgbe\"",
        "name = \"mine\"\ntags = 48",
        1,
    );
    let nic = Description::parse("mine.toml", &text).unwrap().nic(&Choice::default()).unwrap();
    assert_eq!((nic.tags.value, nic.tags.mark, nic.tags.source.as_str()), (48, Mark::Given, "mine.toml"));
}

/// Features found replace the defaults. Those asked for come before them, and need no room made.
#[test]
fn found_features_give_way_to_those_asked_for() {
    let description = Description::built_in("cx5").unwrap().unwrap();
    let found = [("xdp_tx_mpwqe".to_string(), true), ("xmit_more".to_string(), false)].into();
    let mut choice = Choice { found, ..Choice::default() };
    assert_eq!(description.switched_on(&choice), ["page_pool", "xdp_tx_mpwqe"]);
    choice.features = [("tx_push".to_string(), true)].into();
    assert_eq!(description.switched_on(&choice), ["tx_push", "page_pool"]);
    assert!(description.nic(&choice).is_ok());
}

/// The allowed values are told for texts, too; a description has a bounded length.
#[test]
fn errors_list_the_allowed_values() {
    let ixgbe = include_str!("../../nics/ixgbe.toml");
    let lanes = "link.lanes: {} cannot be: one of 1, 2, 4, 8, 12, 16, 32";
    for value in ["0", "-8", "\"8\"", "8.5", "4294967304"] {
        let text = ixgbe.replacen("lanes = 8", &format!("lanes = {value}"), 1);
        let error = Description::parse("x.toml", &text).unwrap_err().to_string();
        assert_eq!(error, format!("x.toml: {}", lanes.replace("{}", value)));
    }
    let text = ixgbe.replacen("lanes = 8", "lanes = 8\nmps = 0", 1);
    let error = Description::parse("x.toml", &text).unwrap_err().to_string();
    assert_eq!(error, "x.toml: link.mps: 0 cannot be: one of 128, 256, 512, 1024, 2048, 4096");
    let many: String = (0..2000).map(|n| format!("\n[features.f{n}]")).collect();
    let error = Description::parse("x.toml", &(ixgbe.to_string() + &many)).unwrap_err().to_string();
    assert!(error.starts_with("x.toml: features: 200") && error.ends_with("64 at most"), "{error}");
}

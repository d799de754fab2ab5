//! Disciplines by name.

use wharf_core::qdisc::{
    Fifo, FifoLimit, Order, Qdisc, QdiscKind, QdiscRegistry, QdiscSetup, QdiscSpec, WhenFull,
};

fn parse(text: &str) -> Result<QdiscSpec, String> {
    QdiscRegistry::default().parse(text).map_err(|error| error.to_string())
}

#[test]
fn known_spellings_are_read() {
    for (text, limit, packets) in [
        ("fifo", None, 1000),
        ("fifo:7", Some(FifoLimit::Packets(7)), 7),
        ("fifo:64k", Some(FifoLimit::Bytes(65536)), 1000),
        ("prio", None, 3000),
        ("prio:limit=7,map=46=1/cs1=2", None, 21),
        ("fq_codel", None, 10_240),
        ("fq_codel:target=1ms,limit=64,ecn=off", None, 64),
        ("edt", None, 10_000),
        ("edt:horizon=2s,flows=7,flow-limit=9,limit=64", None, 64),
    ] {
        let spec = parse(text).unwrap();
        assert_eq!((spec.limit(), spec.packets()), (limit, packets), "{text}");
    }
}

#[test]
fn every_kind_builds_a_discipline_of_its_name() {
    for kind in QdiscRegistry::default().kinds() {
        let qdisc = parse(kind.name).unwrap().build(QdiscSetup::default());
        assert_eq!((qdisc.name(), qdisc.when_full()), (kind.name, WhenFull::Wait));
    }
}

/// Those that do not drop at their limit ignore the setting.
#[test]
fn kinds_that_drop_at_the_head_do_so_if_asked() {
    for name in ["fifo", "prio", "fq_codel", "edt"] {
        let setup = QdiscSetup { when_full: WhenFull::DropHead, seed: 1 };
        assert_eq!(parse(name).unwrap().build(setup).when_full(), WhenFull::DropHead, "{name}");
    }
}

/// A limit from outside is that of a specification without one.
#[test]
fn a_limit_is_set_where_there_is_none() {
    for (text, packets) in [
        ("fifo", 20),
        ("fifo:7", 7),
        ("fifo:64k", 1000),
        ("prio", 60),
        ("prio:limit=7", 21),
        ("fq_codel", 20),
        ("fq_codel:limit=7", 7),
        ("edt", 20),
        ("edt:limit=7", 7),
    ] {
        assert_eq!(parse(text).unwrap().or_limit(20).packets(), packets, "{text}");
    }
    assert_eq!(parse("prio").unwrap().or_limit(0).packets(), 3, "at least one");
}

#[test]
fn other_spellings_get_an_error_with_the_choices() {
    for wrong in ["", "fq", "fifo:", "fifo:0", "fifo:0k", "fifo:9999999", "prio:3", "prio:map=46", "fifo:a=b"]
    {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    for wrong in ["flows=0", "target=5", "target=2min", "ecn=yes", "limit=0", "rate=1", "quantum=0"] {
        assert!(parse(&format!("fq_codel:{wrong}")).is_err(), "{wrong}");
    }
    for wrong in ["horizon=2h", "flows=0", "flow-limit=0", "limit=2m", "flow_limit=9"] {
        assert!(parse(&format!("edt:{wrong}")).is_err(), "{wrong}");
    }
    assert!(parse("none").unwrap_err().contains("want fifo"));
}

static MINE: QdiscKind = QdiscKind {
    name: "mine",
    usage: "mine[:PACKETS]",
    summary: "my own",
    takes_limit: true,
    order: Order::All,
    keys: &[],
    packets: |spec| match spec.limit() {
        Some(FifoLimit::Packets(packets)) => packets,
        _ => 1000,
    },
    build: |_, setup| Box::new(Fifo::new(FifoLimit::Packets(1000)).when_full(setup.when_full)),
};

#[test]
fn a_kind_of_a_users_own_is_read_and_listed() {
    let registry = QdiscRegistry::default().with(&MINE).with(&MINE);
    assert_eq!(registry.parse("mine:5").unwrap().packets(), 5);
    assert_eq!(registry.kinds().len(), QdiscRegistry::default().kinds().len() + 1);
    assert!(registry.usage().contains("my own"));
    assert!(registry.keys().iter().any(|line| line.starts_with("fq_codel: target=5ms")));
}

//! Options by their tables.

use std::time::Duration;
use wharf_core::options::{Key, Options, split};

const KEYS: &[Key] = &[
    Key::off_on("packed", "packed rings"),
    Key::word("mode", &["auto", "copy"], "how frames get there"),
    Key::number("ring", 1..=65536, "1 to 65536 frames", "1024", "frames under way"),
    Key::time("delay", Duration::from_secs(60), "none", "time on the line"),
];

fn parse(parts: &[&str]) -> Result<Options, String> {
    Options::parse("it", parts.iter().copied(), &[KEYS]).map_err(|error| error.to_string())
}

#[test]
fn values_are_read_by_their_table() {
    let options = parse(&["ring=4k", "mode=copy", "delay=5ms"]).unwrap();
    assert_eq!((options.number("ring"), options.word("mode")), (Some(4096), Some("copy")));
    assert_eq!((options.time("delay"), options.is_on("packed")), (Some(Duration::from_millis(5)), false));
    assert_eq!(options.text("ring"), Some("4k"));
    assert_eq!(parse(&["packed=on"]).map(|options| options.is_on("packed")), Ok(true));
}

#[test]
fn wrong_options_give_one_line_with_the_right_ones() {
    let keys = "its keys are packed, mode, ring, delay";
    for (part, message) in [
        ("ring", format!("it: \"ring\" is no key=value; {keys}")),
        ("rings=1", format!("it: unknown key \"rings\"; {keys}; did you mean ring?")),
        ("colour=red", format!("it: unknown key \"colour\"; {keys}")),
        ("mode=coyp", "it: mode: \"coyp\" is none of auto, copy; did you mean copy?".into()),
        ("ring=0", "it: ring: 0 cannot be: 1 to 65536 frames".into()),
        ("ring=x", "it: ring: \"x\" is no size: write it like 64k, 1m, 4GiB, 1500".into()),
        ("mode=zero", "it: mode: \"zero\" is none of auto, copy".into()),
        ("delay=2min", "it: delay: 120s is beyond 60s".into()),
    ] {
        assert_eq!(parse(&[part]), Err(message));
    }
    assert_eq!(parse(&["ring=1", "ring=2"]), Err("it: ring is given twice".into()));
    let none = Options::parse("it", ["x=1"], &[]).unwrap_err();
    assert_eq!(none.to_string(), "it: unknown key \"x\"; it takes none");
}

#[test]
fn a_comma_after_a_backslash_does_not_split() {
    assert_eq!(split(r"a\,b.pcap,order=le"), ["a,b.pcap", "order=le"]);
    assert_eq!(split(r"a\b\,"), [r"a\b,"]);
    assert_eq!(split(""), [""]);
}

//! Wrong use: one line that says what is allowed, exit code 2, nothing on standard output.

use crate::common::{Folder, SAMPLE, assert_wrong, command, finish, text, wharf};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Wrong command lines, with the words that the error must have.
const WRONG: &[(&str, &str)] = &[
    ("fly", "unrecognized subcommand 'fly'"),
    ("route get 10.0.0.256", "'<ADDRESS>': invalid IP address"),
    ("send --to net:packet --count 1", "net:packet: wants --dst"),
    ("send --to net:packet --dst 10.0.0.1 --vlan 5", "the route says what --mac and --vlan would"),
    ("route get 10.0.0.1 mark", "mark: wants a value"),
    ("route get 10.0.0.1 mark 0x1ffffffff", "mark: want a number up to 4294967295"),
    ("route get 10.0.0.1 oif no-such-0", "oif: no interface no-such-0"),
    ("route get 10.0.0.1 from fd00::1", "from: want an address of the destination's family"),
    ("route get 10.0.0.1 via 10.0.0.2", "via: want from, iif, oif, mark"),
    ("send --what", "--help lists what there is"),
    ("send --pcap x --size 60", "'--pcap <FILE>' cannot be used with '--size <N>'"),
    ("send --pcap x --imix", "cannot be used with"),
    ("send --size 60 --imix", "cannot be used with"),
    ("send --size 60 --rate original --to null", "generated packets have no time stamps"),
    ("send --loop 2", "--pcap <FILE>"),
    ("send --pcap x --loop -1", "want a number of rounds"),
    ("send --pcap x --speed warp", "want a rate with its unit, such as 1mpps, 20mbit or 1g; or top"),
    ("send --count 0", "want a number from 1 on"),
    ("send --count 5kg", "want a number from 1 on"),
    ("send --seconds 0", "want a time above 0"),
    ("send --seconds -1", "--seconds"),
    ("send --seconds 5parsec", "300ms"),
    ("send --rate 10", "want a rate with its unit"),
    ("send --rate 10MBps", "\"MBps\" is of bytes: write 80mbit"),
    ("send --priority-rate 1kBps", "write 8kbit"),
    ("send --to wire:rate=1GBps", "write 8gbit"),
    ("forward null null --rate 1.5MB/s", "write 12mbit"),
    ("send --rate -5", "'-5' for '--rate <RATE>': want a rate with its unit"),
    (
        "send --count 9 --size 60 --to null --user no-such-user",
        "--user no-such-user: no user \"no-such-user\" in /etc/passwd",
    ),
    ("receive --from udp:127.0.0.1:0 --user 1:no-such-group", "no group \"no-such-group\" in /etc/group"),
    ("forward null wire --user root", "that is root: want another user"),
    ("forward null wire --user nobody --capabilities keep", "--user takes them: want reopen or drop"),
    ("forward null wire --check", "--config <FILE>"),
    ("forward --config /nonexistent/file", "--config /nonexistent/file: No such file"),
    ("forward null wire --seccomp maybe", "[possible values: on, off]"),
    ("forward packet:lo packet:lo", "both ends are packet:lo"),
    ("forward packet:lo packet:lo,gso=keep", "both ends are packet:lo"),
    ("forward xdp:lo xdp:lo,queue=1", "both ends are xdp:lo"),
    ("forward tap:x,mtu=9000 tap:x", "both ends are tap:x"),
    ("forward packet:lo null --route", "null is none of packet and xdp"),
    (
        "forward packet:lo packet:lo0 packet:lo1 --route",
        "--route: between two ends: three and more are a switch",
    ),
    ("forward packet:lo packet:lo0 --route --queues 2", "--route: by one queue of each end"),
    ("forward packet:lo packet:lo0 --route --when-full wait", "a router drops what does not fit"),
    ("forward null null --rate -5", "'-5' for '--rate <RATE>': want a rate from 8kbit"),
    ("forward null null --rate 1gpps", "or of packets, such as 10kpps"),
    ("forward null null --rate -5mbit", "'-5mbit' for '--rate <RATE>'"),
    (
        "forward null pcap:x.pcap,snapped=pad",
        "pcap:x.pcap: snapped is a key to receive alone; its keys are resolution",
    ),
    ("forward pcap:x.pcap,order=be null", "pcap:x.pcap: order is a key to send alone; its keys are snapped"),
    ("forward null null --frames 8", "want a number from 64 to 16777216"),
    ("send --rate 0pps", "want a rate"),
    ("send --size 59", "want a number from 60 to 65535"),
    ("send --size 63 --vlan 1", "64 to 65535"),
    ("send --size 79 --src ::1", "80 to 65535"),
    ("send --src 10.0.0.1 --dst ::1", "two IPv4 or two IPv6"),
    ("send --src nowhere", "--src"),
    ("send --mac 02:00:00:00:00:01", "want source and destination"),
    ("send --vlan 4095", "want a number from 1 to 4094"),
    ("send --flows 2 --senders 3", "3 (one per sender) to 64512"),
    ("send --senders 0", "want a number from 1 to 1024"),
    ("send --queues 65", "want a number from 1 to 64"),
    ("send --queues 2 --count 1", "--queues 2: null, packet, xdp, tap and igb can have several"),
    ("send --count 1 --echo", "a `wire` carries"),
    ("send --count 1 --echo --to null", "nothing comes back by `null`"),
    ("send --count 1 --echo --queues 2 --to tap:t0", "--echo is for one queue"),
    ("send --queues 2 --count 1 --to null --fault drop=1%", "unknown key"),
    ("send --queues 2 --count 1 --to null --when-full drop-tail", "drop-tail is for one"),
    ("send --poll never", "invalid value 'never'"),
    ("receive --from null --poll never", "invalid value 'never'"),
    ("send --burst 257", "want a number from 1 to 256"),
    ("send --frames 0", "want a number from 1 to 16777216"),
    ("send --frame-bytes 2000", "want a multiple of 64"),
    ("send --qdisc fq", "want fifo[:N|:SIZE]"),
    ("send --qdisc fq_codel:goal=5ms", "fq_codel: unknown key \"goal\"; its keys are target, interval,"),
    ("send --qdisc fifo:0", "fifo: want a limit of 1 to 1048576 packets"),
    ("send --batch maybe", "want on, off or bytes=N"),
    ("send --bql less", "want on, off, min=SIZE"),
    ("send --bql min=2k,max=1k", "want on, off, min=SIZE"),
    ("send --tos 256", "want a number from 0 to 255"),
    ("send --pcap x --tos 1", "cannot be used with"),
    ("send --gso 64m", "want a size up to 64k"),
    ("send --gso 16k", "try packet or null"),
    ("send --size 1514 --gso 1513 --count 1 --to null", "--gso 1513: shorter than one frame of --size 1514"),
    ("send --imix --gso 16k", "cannot be used with"),
    ("send --priority-rate 10", "want a rate with its unit"),
    ("send --pcap x --priority-rate 1kpps", "cannot be used with"),
    ("send --cpu 100000", "this process may use processors"),
    ("send --cpu one", "want numbers of processors"),
    ("send --to ether", "unknown kind of device; there are null, "),
    ("send --to wire:rate=fast", "no bit rate"),
    ("send --to wire:colour=red", "its keys are"),
    ("send --size 60 --to pcap:never-made.pcap", "--count N or --seconds S"),
    ("send --fault stall", "no key=value; its keys are seed, error"),
    ("send --fault stall=1", "no chance"),
    ("send --fault drop=1%", "unknown key"),
    ("send --fault seed=7", "name at least one"),
    ("send --count 1 --small-queues 1k", "want on, off or a size from 4k to 1g"),
    ("devices --verbos", "--help lists what there is"),
    ("send --quiet --verbose", "cannot be used with"),
    ("send --color mauve", "[possible values: auto, always, never]"),
    ("send --to pakcet:lo", "; did you mean packet?"),
    ("send --to wire:rat=1g", "; did you mean rate?"),
    ("send --qdisc fqcodel", "; did you mean fq_codel?"),
    ("receive --from packet:lo,gso=kep", "is none of cut, keep; did you mean keep?"),
    ("devices pacet", "; did you mean packet?"),
    ("completions tcsh", "[possible values: bash, zsh, fish]"),
    ("man fly", "fly: neither a command nor a folder that exists"),
];

#[test]
fn each_wrong_use_gets_an_error_with_the_allowed_values() {
    for (args, what) in WRONG {
        assert_wrong(args, what);
    }
}

#[test]
fn no_command_shows_the_help_as_a_wrong_use() {
    let done = wharf(&[]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("Usage: wharf"), "{done:?}");
}

#[test]
fn help_and_version_go_to_standard_output() {
    for (args, what) in [
        (&["--help"][..], "Examples:"),
        (&["send", "--help"], "Examples:"),
        (&["--version"], concat!("wharf ", env!("CARGO_PKG_VERSION"))),
        (&["version"], concat!("wharf ", env!("CARGO_PKG_VERSION"))),
    ] {
        let done = wharf(args);
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(done.stdout.contains(what), "{args:?}: {}", done.stdout);
    }
}

#[test]
fn arguments_that_are_not_utf8_are_named() {
    let with = |args: &[&str], last: &[u8]| {
        let child = command(args).arg(OsStr::from_bytes(last)).spawn();
        finish(child.unwrap())
    };
    let done = with(&["receive", "--from"], b"pcap:caf\xe9");
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{done:?}");
    assert!(done.line().contains("pcap:caf\u{fffd}: is not UTF-8"), "{done:?}");
    let done = with(&["send", "--help"], b"caf\xe9");
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert!(done.stdout.contains("Usage: wharf send"), "{done:?}");
}

#[test]
fn no_file_is_made_by_a_wrong_use() {
    let folder = Folder::new();
    let out = folder.path("out.pcap");
    let to = format!("pcap:{}", text(&out));
    let done = wharf(&["send", "--pcap", SAMPLE, "--frame-bytes", "1024", "--to", &to]);
    assert_eq!((done.code, out.exists()), (Some(1), false), "{done:?}");
}

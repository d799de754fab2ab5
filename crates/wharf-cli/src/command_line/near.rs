//! Near misses: words of other programs, and what this one calls them.

use clap::Error;
use clap::error::{ContextKind, ContextValue};

/// What is meant, and the words for it of tcpreplay, trafgen, iperf3, ping, tcpdump and of people.
const NEAR: &[(&str, &[&str])] = &[
    ("--seconds S", &["--duration", "--time", "--timeout", "-t", "-d"]),
    ("--count N", &["--packets", "--number", "--num", "--limit", "-c", "-n"]),
    ("--rate RATE, or --pcap FILE for a capture", &["-r"]),
    ("--rate RATE", &["--bandwidth", "--bitrate", "--mbps", "--pps", "-b"]),
    ("--pcap FILE", &["--file", "--read", "--write", "-w", "-f"]),
    ("the device, such as packet:eth0", &["--interface", "--iface", "--intf1", "--dev", "--device", "-i"]),
    ("--size N", &["--length", "--len", "-l", "-s"]),
    ("--senders N", &["--threads", "--parallel", "-P"]),
    ("send --pcap FILE --rate original", &["replay", "play"]),
    ("send --echo", &["ping", "echo"]),
    ("send", &["generate", "transmit", "tx", "blast"]),
    ("receive", &["listen", "recv", "rx", "sink"]),
    ("receive --pcap FILE", &["capture", "dump", "record", "sniff"]),
    ("forward", &["bridge", "shape", "proxy"]),
    ("show", &["status", "stats", "ps", "runs", "info"]),
    ("show for runs, devices for devices", &["list", "ls"]),
    ("top", &["watch", "monitor"]),
    ("devices", &["interfaces", "ifaces", "nics"]),
    ("doctor", &["check", "diagnose", "probe"]),
    ("demo", &["test", "example", "try"]),
];

/// Returns what is meant by the word that an error is about.
pub(super) fn meant(error: &Error) -> Option<String> {
    let word = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand].iter().find_map(|kind| {
        let Some(ContextValue::String(word)) = error.get(*kind) else { return None };
        Some(word.clone())
    })?;
    let is_it = |near: &str| near == word || word.split_once('=').is_some_and(|(name, _)| name == near);
    let found = NEAR.iter().find(|(_, words)| words.iter().any(|near| is_it(near)));
    found.map(|(meant, _)| format!("there is no '{word}': want {meant}"))
}

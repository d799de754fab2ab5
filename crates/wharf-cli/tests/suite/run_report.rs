//! `--report DIR` of runs: the page, and what it leaves alone.

use crate::common::{Folder, Running, eventually, text, wharf};

fn page(folder: &Folder) -> String {
    std::fs::read_to_string(folder.path("out/report.html")).unwrap()
}

/// Titles of the pictures of a page.
fn titles(page: &str) -> Vec<&str> {
    page.split("<svg ")
        .skip(1)
        .map(|svg| svg.split("<title>").nth(1).unwrap().split('<').next().unwrap())
        .collect()
}

#[test]
fn a_run_has_a_page_with_its_pictures_its_summary_and_its_machine() {
    let folder = Folder::new();
    let out = text(&folder.path("out"));
    let args = "send --size 1000 --seconds 1 --to wire:rate=50mbit --batch on --qdisc fifo:20 --when-full drop-tail --report";
    let args: Vec<&str> = args.split(' ').chain([out.as_str()]).collect();
    let done = wharf(&args);
    assert_eq!((done.code, &done.news()[..]), (Some(0), &[][..]));
    assert_eq!(done.stdout.lines().last(), Some(format!("written: {out}/report.html").as_str()));
    let page = page(&folder);
    assert_eq!(
        titles(&page),
        [
            "Packets a second",
            "Bits a second",
            "Packets that wait",
            "Byte queue limit",
            "Queue delay, 99th percentile",
            "Drops by reason",
            "Delays"
        ]
    );
    for part in [
        "sent, drop-tail",
        "sent, band 1",
        "sent: in the queue",
        "sent: to arrival",
        "rate, kpps",
        "time, s",
        "packets per doorbell",
        "prefers-color-scheme:dark",
        ">kernel<",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The command is the one that was given, but for the folder.
    assert!(page.contains("--when-full drop-tail --report DIR</code>"), "{page}");
    let fetched = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for outside in ["http:", "https:", "<script", "<link", "src=", "url("] {
        assert!(!fetched.contains(outside), "{outside}");
    }
}

/// Two runs are two lines, and JSON stays one object.
#[test]
fn a_comparison_has_a_line_for_each_run_and_json_stays_json() {
    let folder = Folder::new();
    let out = text(&folder.path("out"));
    let done = wharf(&["send", "--size", "60", "--seconds", "0.4", "--json", "--report", &out]);
    assert!(done.good_json()["packets"].as_u64() > Some(0));
    let page = page(&folder);
    assert!(page.contains("batching on") && page.contains("batching off"), "{page}");
    assert!(page.contains("wharf send --size 60 --seconds 0.4 --json --report DIR"), "{page}");
}

/// The page is opened before the filter of system calls is installed, and written behind it.
#[test]
fn a_run_behind_a_filter_writes_its_page_and_a_short_one_says_why_it_is_empty() {
    let folder = Folder::new();
    let out = text(&folder.path("out"));
    // An earlier page stays until a run has another, and nothing of it is left then.
    std::fs::create_dir(&out).unwrap();
    std::fs::write(folder.path("out/report.html"), "earlier ".repeat(50_000)).unwrap();
    let gone = format!("pcap:{}", text(&folder.path("gone.pcap")));
    assert_eq!(wharf(&["receive", "--from", &gone, "--report", &out]).code, Some(1));
    assert!(page(&folder).starts_with("earlier"));
    // On a busy machine a run may be long enough for pictures.
    let page = eventually(|| {
        let done = wharf(&["send", "--count", "100", "--size", "100", "--seccomp", "on", "--report", &out]);
        assert_eq!(done.code, Some(0), "{done:?}");
        let made = page(&folder);
        if made.contains("too short for pictures over time") { Ok(made) } else { Err(made) }
    });
    assert!(!page.contains("earlier"));
    assert_eq!(titles(&page), ["Delays"], "{page}");
}

#[test]
fn receive_and_forward_have_pages_too() {
    let folder = Folder::new();
    let (out, capture) = (text(&folder.path("out")), text(&folder.path("copy.pcap")));
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/sample.pcap");
    let from = format!("pcap:{sample}");
    let done = wharf(&["receive", "--from", &from, "--report", &out]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(page(&folder).contains("<h1>wharf receive</h1>"));
    let to = format!("pcap:{capture}");
    let done = wharf(&["forward", &from, &to, "--report", &out]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let page = page(&folder);
    assert!(page.contains("<h1>wharf forward</h1>") && page.contains("2200"), "{page}");
}

#[test]
fn a_receiver_has_bits_a_second_and_the_delays_of_generated_packets() {
    let folder = Folder::new();
    let (out, socket) = (text(&folder.path("out")), text(&folder.path("guest")));
    let from = format!("vhost-user:{socket}");
    let mut receive = Running::start(&["receive", "--from", &from, "--count", "1000", "--report", &out]);
    receive.until_said("listening on");
    let to = format!("virtio-user:{socket}");
    let done = wharf(&["send", "--size", "1000", "--rate", "1kpps", "--count", "1000", "--to", &to]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let done = receive.finish();
    assert_eq!(done.code, Some(0), "{done:?}");
    let page = page(&folder);
    assert_eq!(titles(&page), ["Packets a second", "Bits a second", "Delays"]);
    assert!(page.contains("from stamp to arrival") && page.contains("bit/s"), "{page}");
}

#[test]
fn a_folder_that_cannot_be_is_said_before_anything_is_sent() {
    let folder = Folder::new();
    let file = folder.file("file", b"");
    let done = wharf(&["send", "--count", "10", "--size", "60", "--report", &file]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
    assert!(done.line().contains(&format!("--report {file}: want a folder")), "{done:?}");
}

#[test]
fn no_page_is_written_through_a_link() {
    let folder = Folder::new();
    let victim = folder.file("victim", b"kept");
    let dir = text(&folder.path("dir"));
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(&victim, folder.path("dir").join("report.html")).unwrap();
    let done = wharf(&["send", "--size", "60", "--count", "10", "--to", "null", "--report", &dir]);
    assert!(done.code == Some(1) && done.line().contains("it is a link"), "{done:?}");
    assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
}

#[test]
fn pages_have_code_in_place_of_backticks_and_a_verdict_of_their_own_figures() {
    let folder = Folder::new();
    let out = text(&folder.path("out"));
    let slow = ["--seconds", "0.4", "--to", "wire:rate=10mbit", "--when-full", "drop-tail", "--report", &out];
    wharf(&[&["send", "--size", "60"][..], &slow].concat());
    let made = page(&folder);
    let answers = made.split("<h2>Summary").next().unwrap();
    assert!(!answers.contains('`'), "{answers}");
    assert_eq!(answers.matches("--to wire:rate=10mbit").count(), 1, "the command stands once: {answers}");
}

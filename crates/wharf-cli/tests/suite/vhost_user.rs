//! `wharf receive --from vhost-user:`, whose peer shares memory that cannot be sealed: the command asks for the SIGBUS handler.

use crate::common::driver::{FEATURES, Peer, REPLY_ACK, USER, state, words};
use crate::common::show::until_moved;
use crate::common::{Folder, Running, command, finish, signal, text};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use vmm_sys_util::eventfd::EventFd;

/// More than machines have; none of it is ever stored.
const MEMORY_BYTES: u64 = 1 << 40;

#[test]
fn memory_that_shrinks_ends_its_connection_and_not_the_command() {
    // The handler maps pages: the filter lets it.
    ["off", "on"].into_iter().for_each(shrink_memory);
}

fn shrink_memory(seccomp: &str) {
    let folder = Folder::new();
    let socket = folder.path("vm.sock");
    let from = format!("vhost-user:{}", text(&socket));
    let receive = ["receive", "--from", &from, "--poll", "busy", "--json", "--seccomp", seccomp];
    let child = command(&receive).spawn().unwrap();
    let mut peer = Peer::connect(&socket);
    let memory = format!("/dev/shm/wharf-test-{}", std::process::id());
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&memory).unwrap();
    std::fs::remove_file(&memory).unwrap();
    file.set_len(MEMORY_BYTES).unwrap();

    peer.send(3, 0, &[], &[]);
    peer.ask(1);
    peer.ask(15);
    peer.send(16, 0, &words(&[REPLY_ACK]), &[]);
    peer.tell(2, &words(&[FEATURES]), &[]);
    // SET_MEM_TABLE: a file of tmpfs cannot be sealed, and is taken all the same.
    let table = [state(1, 0), words(&[0, MEMORY_BYTES, USER, 0])].concat();
    peer.tell(5, &table, &[file.as_raw_fd()]);

    // The virtqueue that the driver sends by: 16 descriptors, then the available ring, then the used one, all zero.
    let events = [EventFd::new(0).unwrap(), EventFd::new(0).unwrap()];
    peer.tell(8, &state(1, 16), &[]);
    peer.tell(10, &state(1, 0), &[]);
    peer.tell(9, &[state(1, 0), words(&[USER, USER + 1024, USER + 512, 0])].concat(), &[]);
    peer.tell(13, &words(&[1]), &[events[0].as_raw_fd()]);
    peer.tell(12, &words(&[1]), &[events[1].as_raw_fd()]);
    peer.tell(18, &state(1, 1), &[]);

    file.set_len(0).unwrap();
    // The connection ends once the command has met the fault.
    assert!(matches!(peer.0.read(&mut [0]), Ok(0) | Err(_)));
    signal(&child, "INT");
    let done = finish(child);
    assert!(done.code.is_some(), "ended by a signal: {done:?}");
    assert!(done.stderr.contains("made its shared memory shorter"), "{done:?}");
    assert_eq!(done.json()["pool"]["out"], 0);
}

/// A back end that answers what a driver asks for, until all is set up. Returns where the used ring of the virtqueue for
/// arrivals lies in the memory of the rings.
fn set_up_by(mut stream: &UnixStream) -> u64 {
    let (mut header, mut used_at) = ([0; 12], 0);
    loop {
        stream.read_exact(&mut header).unwrap();
        let word = |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let (request, mut body) = (word(&header, 0), vec![0; word(&header, 8) as usize]);
        stream.read_exact(&mut body).unwrap();
        match (request, body.first()) {
            // GET_FEATURES: VIRTIO_F_VERSION_1.
            (1, _) => {
                let reply = [1u32, 5, 8].map(u32::to_ne_bytes).concat();
                stream.write_all(&[reply, words(&[1 << 32])].concat()).unwrap();
            }
            // SET_VRING_ADDR, of virtqueue 0: its used ring, in a region that begins at 1 << 28.
            (9, Some(0)) => used_at = u64::from_ne_bytes(body[16..24].try_into().unwrap()) - (1 << 28),
            // SET_VRING_KICK of the last virtqueue.
            (12, Some(1)) => return used_at,
            _ => {}
        }
    }
}

#[test]
fn back_end_that_breaks_its_rings_ends_a_run_whose_packets_come_back() {
    let folder = Folder::new();
    let listener = UnixListener::bind(folder.path("switch.sock")).unwrap();
    let to = format!("virtio-user:{}", text(&folder.path("switch.sock")));
    let arguments = ["send", "--size", "60", "--echo", "--to", &to, "--seconds", "1h", "--on-gone", "fail"];
    let child = command(&arguments).spawn().unwrap();
    let (stream, _) = listener.accept().unwrap();
    let used_at = set_up_by(&stream);
    // The rings are the smallest memory of the driver.
    let all =
        std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().map(|entry| entry.unwrap().path());
    let is_memory =
        |path: &PathBuf| std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:"));
    let size = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
    let rings = all.filter(is_memory).min_by_key(size).unwrap();
    let rings = std::fs::File::options().write(true).open(rings).unwrap();
    // It has used 1000 buffers of 256.
    rings.write_all_at(&1000u16.to_le_bytes(), used_at + 2).unwrap();
    let done = finish(child);
    assert!(done.stderr.contains("the back end breaks the rules of a virtqueue"), "{done:?}");
}

#[test]
fn a_peer_that_stays_away_ends_a_receiver_that_gives_up() {
    let folder = Folder::new();
    let socket = folder.path("switch.sock");
    let (from, back) = (format!("virtio-user:{}", text(&socket)), format!("vhost-user:{}", text(&socket)));
    let mut peer = Running::start(&["receive", "--from", &back]);
    peer.until_said("listening on");
    let mut run = Running::start(&["receive", "--from", &from, "--give-up", "2s"]);
    run.until_said("listening on");
    drop(peer);
    let done = run.finish();
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains(": given up: away for "), "{done:?}");
}

/// Starts a sender to `socket`, and waits until it has sent for a while.
fn driver(socket: &Path) -> Running {
    let to = format!("virtio-user:{}", text(socket));
    let mut driver =
        Running::start(&["send", "--to", &to, "--size", "200", "--rate", "1kpps", "--stats", "100ms"]);
    // The other side checks the connection four times a second.
    driver.until_lines(8, |line| line.contains("sent ") && !line.contains("sent 0 "));
    driver
}

#[test]
fn a_driver_that_dies_is_missed_and_its_successor_is_told() {
    for way in [&["--on-gone", "fail"][..], &["--give-up", "600ms"], &["--seconds", "1h"]] {
        let folder = Folder::new();
        let socket = folder.path("vm.sock");
        let from = format!("vhost-user:{}", text(&socket));
        let mut run = Running::start(&[&["receive", "--from", &from], way].concat());
        run.until_said("listening on");
        drop(driver(&socket));
        run.until_said("vm.sock: no driver is here: not connected");
        let done = if way[0] == "--seconds" {
            let driver = driver(&socket);
            run.until_said("its other side is here again after ");
            drop(driver);
            run.end()
        } else {
            run.finish()
        };
        let last = *done.news().last().unwrap();
        match way[0] {
            "--on-gone" => {
                assert!(
                    done.code == Some(1) && last.ends_with("no driver is here: not connected"),
                    "{done:?}"
                );
            }
            "--give-up" => {
                let (_, seconds) = last.split_once(": given up: its other side was away for ").unwrap();
                assert!(seconds.trim_end_matches(" s").parse::<f64>().unwrap() >= 0.6, "{done:?}");
            }
            _ => assert_eq!(done.code, Some(0), "{done:?}"),
        }
    }
}

/// A connection on which nothing is sent is no driver, and keeps others out for two seconds at most.
#[test]
fn a_silent_connection_does_not_keep_a_driver_out() {
    let folder = Folder::new();
    let socket = folder.path("vm.sock");
    let (from, to) = (format!("vhost-user:{}", text(&socket)), format!("virtio-user:{}", text(&socket)));
    let receiver = command(&["receive", "--from", &from, "--count", "50"]).spawn().unwrap();
    let mute = Peer::connect(&socket);
    let sent = finish(command(&["send", "--to", &to, "--size", "200", "--count", "50"]).spawn().unwrap());
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let done = finish(receiver);
    drop(mute);
    assert!(done.code == Some(0) && !done.stderr.contains("here again"), "{done:?}");
    assert!(done.stderr.contains("the connection is closed: it has sent nothing for 2 s"), "{done:?}");
}

#[test]
fn frames_that_a_stopped_back_end_has_are_lost_and_a_signal_ends_the_sender_soon() {
    let folder = Folder::new();
    let socket = folder.path("switch.sock");
    let (to, back) = (format!("virtio-user:{}", text(&socket)), format!("vhost-user:{}", text(&socket)));
    let mut peer = Running::start(&["receive", "--from", &back]);
    peer.until_said("listening on");
    let control = folder.path("control");
    let args = ["send", "--to", &to, "--size", "200", "--rate", "20kpps", "--json", "--control"];
    let mut run = Running::start(&[&args[..], &[&text(&control)]].concat());
    until_moved(&control, 1);
    peer.signal("STOP");
    // What a device has as a signal ends the run is no fault, unless the run reported the stall.
    run.until_said("has completed none of ");
    let done = run.end();
    peer.signal("CONT");
    peer.end();
    let run = done.json();
    let lost = run["drops"]["by_reason"]["lost"].as_u64().unwrap_or(0);
    assert!(lost > 0 && run["failed"] == lost && done.code == Some(1), "{done:?}");
}

/// A driver that breaks the rules, and one that comes after it.
#[test]
fn a_driver_that_breaks_the_rules_does_not_end_a_receiver() {
    let folder = Folder::new();
    let socket = folder.path("vm.sock");
    let from = format!("vhost-user:{}", text(&socket));
    let child = command(&["receive", "--from", &from, "--json"]).spawn().unwrap();
    for _ in 0..2 {
        let peer = Peer::connect(&socket);
        // Flagged as an answer, to nothing.
        peer.send(99, 4, &[0; 8], &[]);
        assert!(matches!((&peer.0).read(&mut [0]), Ok(0) | Err(_)), "the connection ends");
    }
    let mut peer = Peer::connect(&socket);
    peer.send(3, 0, &[], &[]);
    peer.ask(1);
    signal(&child, "INT");
    let done = finish(child);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("the connection is closed: message of request 99"), "{done:?}");
    assert_eq!(done.json()["pool"]["out"], 0);
}

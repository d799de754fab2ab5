//! Disturbances by the peer of a vhost-user socket, a process of its own, and by strangers at that socket.

use crate::bed::Bed;
use crate::kind::{Kind, PEERS, VhostUser};
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use wharf::{OnGone, OnStall};

pub const KINDS: &[Kind] = &[
    Kind::new("peer-killed", PEERS, |bed| restart(bed, libc::SIGKILL, "")),
    Kind::new("peer-terminated", PEERS, |bed| restart(bed, libc::SIGTERM, "")),
    Kind::new("peer-killed-3-times", PEERS, |bed| (0..3).for_each(|_| restart(bed, libc::SIGKILL, ""))),
    Kind::new("peer-stopped", PEERS, stop),
    Kind::new("peer-stopped-reset", PEERS, stop).stalls(OnStall::Reset),
    Kind::new("peer-stopped-then-killed", PEERS, stop_and_kill),
    Kind::new("peer-packed-other", PEERS, restart_with_other_rings),
    Kind::new("peer-with-2-queues", PEERS, restart_with_2_queues),
    Kind::new("socket-removed", PEERS, remove_socket),
    Kind::new("stranger-beside-the-peer", PEERS, meet_stranger),
    Kind::new("strangers-beside-the-peer", PEERS, |bed| (0..5).for_each(|_| meet_stranger(bed))),
    Kind::new("stranger-in-the-peers-place", PEERS, |bed| be_stranger(bed, &garbage())),
    Kind::new("half-a-message-in-the-peers-place", PEERS, |bed| be_stranger(bed, &[1, 0, 0, 0, 1])),
    Kind::new("silence-in-the-peers-place", PEERS, |bed| be_stranger(bed, &[])),
    Kind::new("peer-killed-for-good-fail", PEERS, kill_for_good).on_gone(OnGone::Fail).errors(),
    Kind::new("peer-killed-for-good-wait", PEERS, kill_for_good).on_gone(OnGone::Wait).errors(),
    Kind::new("peer-killed-for-good-reopen", PEERS, kill_for_good).errors(),
    Kind::new("peer-stopped-for-good-fail", PEERS, stop_for_good).stalls(OnStall::Fail).errors(),
    Kind::new("peer-stopped-for-good-report", PEERS, stop_for_good).errors(),
];

fn signal(bed: &Bed, signal: i32) {
    bed.peer.iter().for_each(|peer| peer.signal(signal));
}

fn restart(bed: &mut Bed, with: i32, options: &str) {
    signal(bed, with);
    bed.peer.take().into_iter().for_each(|peer| peer.wait());
    bed.hold();
    bed.start_peer(options);
}

fn stop(bed: &mut Bed) {
    signal(bed, libc::SIGSTOP);
    bed.hold();
    signal(bed, libc::SIGCONT);
}

fn stop_and_kill(bed: &mut Bed) {
    signal(bed, libc::SIGSTOP);
    bed.hold();
    restart(bed, libc::SIGKILL, "");
}

fn restart_with_other_rings(bed: &mut Bed) {
    if bed.device == VhostUser {
        return restart(bed, libc::SIGKILL, ",packed=on");
    }
    // A driver that insists on packed rings has to wait for a back end that offers them.
    restart(bed, libc::SIGKILL, ",packed=off");
    restart(bed, libc::SIGKILL, "");
}

fn restart_with_2_queues(bed: &mut Bed) {
    restart(bed, libc::SIGKILL, ",queues=2");
    if bed.device == VhostUser {
        // A driver of more queues than the device has ends.
        bed.hold();
        bed.start_peer("");
    }
}

fn remove_socket(bed: &mut Bed) {
    std::fs::remove_file(bed.socket()).unwrap();
    if bed.device == VhostUser {
        // The path's own socket: it comes back with the device.
        bed.path.reopen().unwrap();
    }
    restart(bed, libc::SIGKILL, "");
}

fn garbage() -> Vec<u8> {
    (0..4096u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Another program connects to the socket, and says nothing that can be understood.
fn meet_stranger(bed: &mut Bed) {
    let Ok(mut stranger) = UnixStream::connect(bed.socket()) else { return };
    // It may be cut off already.
    let _ = stranger.write_all(&garbage());
    bed.hold();
}

/// The peer ends, and another program is at the other end of the socket for a while.
fn be_stranger(bed: &mut Bed, says: &[u8]) {
    signal(bed, libc::SIGKILL);
    bed.peer.take().into_iter().for_each(|peer| peer.wait());
    if bed.device == VhostUser {
        let mut stranger = UnixStream::connect(bed.socket()).unwrap();
        let _ = stranger.write_all(says);
        bed.hold();
    } else {
        // What the peer has left, if it was killed.
        let _ = std::fs::remove_file(bed.socket());
        let listener = UnixListener::bind(bed.socket()).unwrap();
        listener.set_nonblocking(true).unwrap();
        bed.hold();
        let mut met: Vec<_> = listener.incoming().map_while(Result::ok).collect();
        met.iter_mut().for_each(|stream| _ = stream.write_all(says));
        bed.hold();
    }
    bed.start_peer("");
}

fn kill_for_good(bed: &mut Bed) {
    signal(bed, libc::SIGKILL);
    bed.peer.take().into_iter().for_each(|peer| peer.wait());
}

fn stop_for_good(bed: &mut Bed) {
    signal(bed, libc::SIGSTOP);
}

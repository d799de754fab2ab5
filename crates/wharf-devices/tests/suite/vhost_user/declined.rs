//! Requests that the device does not know, or that were not agreed upon: the driver goes on.

use super::guest::{HEADER_BYTES, Pair};
use super::peer::*;
use super::rig::{Rig, until};

/// Requests that there are not yet, and those that nothing was agreed upon for.
const DECLINED: [u32; 14] = [0, 6, 17, 20, 24, 31, 32, 34, 37, 40, 41, 44, 999, u32::MAX];
const VERSION: u32 = 1;
const NEED_REPLY: u32 = 8;

#[test]
fn a_request_that_is_not_served_is_answered_as_failed_and_the_connection_goes_on() {
    let mut rig = Rig::new("declined", 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.negotiate(0);
    assert!(peer.share());
    let mut pair = Pair::new(&mut peer, 0, 8, 2048);
    let fd = peer.fd();
    for request in DECLINED {
        for (len, fds) in [(0, &[][..]), (8, &[]), (40, &[fd, fd]), (4096, &[fd])] {
            peer.raw(&message(request, VERSION | NEED_REPLY, &vec![0xff; len]), fds);
            assert_eq!(peer.reply(), Some(words(&[1])), "request {request} of {len} bytes");
            // Without the flag there is no answer: the next one is that of another request.
            peer.raw(&message(request, VERSION, &vec![0; len]), fds);
            assert!(peer.tell(SET_VRING_ENABLE, &state(0, 1), &[]), "request {request} of {len} bytes");
        }
    }
    assert!(pair.send(&peer, &[0; HEADER_BYTES], &[7; 60], 1));
    let mut came = 0;
    until(|| {
        came += rig.receive().len();
        came == 1
    });
    let told = std::mem::take(&mut rig.errors);
    // One line for each that there is; those far beyond share one.
    assert_eq!(told.len(), DECLINED.len() - 1, "{told:?}");
    assert!(
        told.iter().all(|line| line.contains("of the driver, ") && line.contains("is declined")),
        "{told:?}"
    );
    assert!(told.iter().any(|line| line.contains("request 31 of the driver, GET_INFLIGHT_FD, which was not agreed upon")));
    rig.end();
}

#[test]
fn a_request_that_is_not_served_is_ignored_where_no_answers_were_agreed_upon() {
    let mut rig = Rig::new("ignored", 1);
    let mut peer = Peer::connect(&rig.socket.path());
    peer.raw(&message(45, VERSION | NEED_REPLY, &[0; 8]), &[]);
    peer.negotiate(0);
    assert!(rig.error().contains("request 45 of the driver, which is unknown here, is declined"));
    rig.end();
}

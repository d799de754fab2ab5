//! Back ends that refuse what the one before has left: the driver begins anew.

use super::pair::{Socket, queue, send};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_sys::mapping::Mapping;
use wharf_testkit::assert_conserved;
use wharf_testkit::threads::within_a_minute;

const GET_FEATURES: u32 = 1;
const GET_PROTOCOL_FEATURES: u32 = 15;
const GET_INFLIGHT_FD: u32 = 31;
const SET_INFLIGHT_FD: u32 = 32;
const NEED_REPLY: u32 = 8;
/// VERSION_1 and VHOST_PROTOCOL; REPLY_ACK and INFLIGHT_SHMFD.
const FEATURES: u64 = 1 << 32 | 1 << 30;
const PROTOCOL_FEATURES: u64 = 1 << 3 | 1 << 12;

fn reply(stream: &mut UnixStream, request: u32, body: &[u8], file: Option<&Mapping>) {
    let head = [request, 1 | 4, body.len() as u32].map(u32::to_ne_bytes).concat();
    let bytes = [&head[..], body].concat();
    let fds: Vec<_> = file.iter().map(|file| file.fd().unwrap().as_fd().as_raw_fd()).collect();
    // The driver may have given up.
    let _ = stream.send_with_fds(&[&bytes[..]], &fds);
}

/// Serves one driver until it goes, or until it is started if the back end `ends` then. Refuses a table that it
/// has not made itself. Returns true if the driver was started.
fn serve(mut stream: UnixStream, ends: bool) -> bool {
    let tables = Mapping::shared_small_pages(1 << 20).unwrap();
    let (mut is_own, mut is_started, mut header) = (false, false, [0; 12]);
    while !(ends && is_started) && stream.read_exact(&mut header).is_ok() {
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        let (request, flags) = (word(0), word(4));
        let mut body = vec![0; word(8) as usize];
        if stream.read_exact(&mut body).is_err() {
            break;
        }
        is_started = request == 18 && body[0] == 1;
        let answer = match request {
            GET_FEATURES => FEATURES,
            GET_PROTOCOL_FEATURES => PROTOCOL_FEATURES,
            GET_INFLIGHT_FD => {
                is_own = true;
                let body = [&(1u64 << 20).to_ne_bytes()[..], &[0; 8], &body[16..]].concat();
                reply(&mut stream, request, &body, Some(&tables));
                continue;
            }
            SET_INFLIGHT_FD if !is_own => 1,
            _ if flags & NEED_REPLY != 0 => 0,
            _ => continue,
        };
        reply(&mut stream, request, &answer.to_ne_bytes(), None);
    }
    is_started
}

#[test]
fn one_that_refuses_the_table_of_the_one_before_gets_virtqueues_that_are_new() {
    within_a_minute(|| {
        let socket = Socket::new();
        let listener = UnixListener::bind(socket.path()).unwrap();
        let (ends, may_end) = std::sync::mpsc::channel();
        let back_ends = std::thread::spawn(move || {
            let first = listener.accept().unwrap().0;
            let other = first.try_clone().unwrap();
            let serving = std::thread::spawn(move || serve(first, false));
            may_end.recv().unwrap();
            other.shutdown(std::net::Shutdown::Both).unwrap();
            serving.join().unwrap();
            let refused = (0..).take_while(|_| !serve(listener.accept().unwrap().0, true)).count();
            (listener, refused)
        });
        let queue = queue(&socket.driver(",reconnect=on"), 1024);
        let mut sender = queue.sender("test").unwrap();
        assert_eq!(send(&mut sender, 5, 60), 5);
        queue.poll();
        ends.send(()).unwrap();
        // Those that were in a ring fail, the others wait for the next back end.
        while queue.counters().failed.get() == 0 {
            queue.poll();
            std::thread::yield_now();
        }
        let (listener, refused) = back_ends.join().unwrap();
        assert!(queue.counters().failures().iter().all(|(reason, _)| *reason == "peer-gone"));
        assert_eq!(refused, 3);
        drop((listener, sender));
        queue.shutdown(std::time::Duration::ZERO);
        assert_conserved(&queue);
    });
}

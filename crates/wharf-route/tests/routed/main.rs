//! Packets by a router beside the kernel's own, between network namespaces. Root: `./test net`.

mod changes;
mod forwarding;
mod kinds;
mod random;
#[path = "../../../wharf-net/tests/kernel/rig.rs"]
#[allow(dead_code, reason = "the suite of wharf-net compares with `ip -batch` as well")]
mod rig;
mod sending;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use wharf::{Direction, PagePool, Port};
use wharf_route::{HEADROOM_BYTES, Router};

/// Opens a router by `packet` on these interfaces.
fn router(interfaces: &[&'static str], direction: Direction) -> Router {
    let pool = PagePool::builder().frame_bytes(4096).headroom_bytes(HEADROOM_BYTES).build().expect("a pool");
    let open = |interface: &'static str| {
        let port = Port::builder(&format!("packet:{interface}"), direction).pool(&pool).build();
        (interface, port.expect("a port"))
    };
    Router::new(interfaces.iter().copied().map(open)).expect("a router")
}

/// Receives datagrams of `port` in a network namespace: each with where it came from.
fn receive(namespace: &str, port: u16) -> Receiver<(SocketAddr, Vec<u8>)> {
    let (to, received) = channel();
    let namespace = File::open(format!("/run/netns/{namespace}")).expect("a namespace");
    let (ready, is_ready) = channel();
    thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
        let socket = UdpSocket::bind(("::", port)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
        ready.send(()).expect("a test");
        let mut buffer = [0; 2048];
        while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
            if to.send((from, buffer[..bytes].to_vec())).is_err() {
                break;
            }
        }
    });
    is_ready.recv().expect("a socket");
    received
}

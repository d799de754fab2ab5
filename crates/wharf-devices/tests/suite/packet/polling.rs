//! One poller for a sending and a receiving socket: it sleeps while nothing happens, and wakes for arrivals and completions.

use crate::net::{frame, with_pair};
use crate::polling::Polling;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use wharf_core::poller::Mode;
use wharf_core::pool::Burst;
use wharf_core::queue::TxQueue;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::open::{Direction, open};
use wharf_testkit::pool;
use wharf_testkit::threads::eventually;

const SOON: Duration = Duration::from_secs(20);

/// A queue over `va`, and the arrivals at `vb`.
fn ends() -> (TxQueue, RxQueue, Receiver<Vec<u8>>) {
    let memory = pool(1024);
    let device = open("packet:va", Direction::Send).unwrap().device;
    let queue = TxQueue::builder_of(&memory, device, Arc::new(HostClock), Arc::new(HostPark))
        .unwrap()
        .build()
        .unwrap();
    let (arrives, arrived) = channel();
    let handler = Box::new(move |burst: &mut Burst| {
        burst.iter_mut().for_each(|bytes| arrives.send(bytes.to_vec()).unwrap());
        Rest::Free
    });
    let device = open("packet:vb", Direction::Receive).unwrap().device;
    let receiver =
        RxQueue::new(device.into_rx().unwrap(), &pool(1024), std::slice::from_ref(&queue), handler).unwrap();
    (queue, receiver, arrived)
}

fn send(sender: &mut Sender, number: u32) {
    let bytes = frame(number, 100);
    let mut packet = sender.packet(bytes.len() as u32, Wait::Never).unwrap();
    packet.bytes_mut().copy_from_slice(&bytes);
    _ = sender.send_packet(packet, Wait::Forever).unwrap();
}

fn idles_and_wakes(mode: Mode) {
    with_pair(move || {
        let (queue, receiver, arrived) = ends();
        let mut sender = queue.sender("test").unwrap();
        let polling = Polling::start(mode, Some(&queue), &receiver);
        for number in 0..50 {
            let slept = polling.slept();
            send(&mut sender, number);
            // Only the poller reads this socket, so it has been woken.
            assert_eq!(arrived.recv_timeout(SOON), Ok(frame(number, 100)));
            eventually(SOON, || polling.slept() > slept);
        }
        polling.sleeps("nothing happens");
        drop(polling);
        assert_eq!(arrived.try_recv(), Err(mpsc::TryRecvError::Empty));
        receiver.close().unwrap();
        drop(sender);
        queue.drain(Duration::MAX);
        assert_eq!((queue.counters().sent.get(), queue.shutdown(Duration::MAX).out()), (50, 0));
    });
}

#[test]
#[ignore = "wants root"]
fn a_sleeping_poller_takes_no_time_while_idle_and_wakes_for_every_frame() {
    idles_and_wakes(Mode::Sleeping);
}

#[test]
#[ignore = "wants root"]
fn and_so_does_an_adaptive_one() {
    idles_and_wakes(Mode::Adaptive);
}

#[test]
#[ignore = "wants root"]
fn two_pollers_share_both_sockets_and_nothing_comes_twice() {
    with_pair(|| {
        let (queue, receiver, arrived) = ends();
        let mut sender = queue.sender("test").unwrap();
        let pollers =
            [Mode::Sleeping, Mode::Adaptive].map(|mode| Polling::start(mode, Some(&queue), &receiver));
        (0..200).for_each(|number| send(&mut sender, number));
        for number in 0..200 {
            assert_eq!(arrived.recv_timeout(SOON), Ok(frame(number, 100)));
        }
        let [first, second] = pollers;
        drop(first);
        send(&mut sender, 200);
        assert_eq!(arrived.recv_timeout(SOON), Ok(frame(200, 100)));
        drop(second);
        assert_eq!(receiver.received(), 201);
        drop(sender);
        queue.drain(Duration::MAX);
        assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    });
}

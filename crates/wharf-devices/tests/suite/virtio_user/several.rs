//! Several queue pairs.

use super::pair::{Far, Socket, end, queue};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::channel;
use std::time::Duration;
use wharf_core::pool::Burst;
use wharf_core::rx::{Rest, RxQueue};
use wharf_core::wait::Wait;
use wharf_devices::host::PollerThread;
use wharf_devices::open::{Direction, open};
use wharf_mem::Batch;
use wharf_testkit::pool;
use wharf_testkit::threads::within_a_minute;

const FLOWS: u8 = 16;
const FRAMES: u64 = 4000;

/// A frame's flow and number, of those of [`FLOWS`].
fn read(bytes: &[u8]) -> (u8, u64) {
    (bytes[11], u64::from_be_bytes(bytes[20..28].try_into().unwrap()))
}

/// Sends arrivals back, and notes the numbers of each flow. Returns the number of arrivals.
fn reflect(far: &mut Far, seen: &mut BTreeMap<u8, Vec<u64>>) -> usize {
    use wharf_core::device::{RxDevice, TxDevice};
    let mut batch = Batch::new(64);
    let count = far.device.receive(&mut far.cache, &mut batch, 64).unwrap();
    for frame in batch.frames() {
        let (flow, number) = read(far.pool.region().bytes(frame).unwrap());
        seen.entry(flow).or_default().push(number);
    }
    while !batch.is_empty() {
        far.device.transmit(&mut batch, false);
        far.reap();
    }
    far.reap();
    count
}

#[test]
fn flows_go_by_several_pairs_each_in_order_there_and_back() {
    for layout in ["", ",packed=on", ",napi=off"] {
        within_a_minute(move || {
            let socket = Socket::new();
            // More than are wanted.
            let mut far = Far::new(&socket, 4);
            let queue = queue(&socket.driver(&format!(",queues=3{layout}")), 4096);
            let (arrives, arrived) = channel();
            let handler = Box::new(move |burst: &mut Burst| {
                burst.iter_mut().for_each(|bytes| arrives.send(read(bytes)).unwrap());
                Rest::Free
            });
            let receiver = RxQueue::of(&queue, handler).unwrap();
            let poller = PollerThread::builder().receiver(&receiver).start().unwrap();
            let other = std::thread::spawn(move || {
                let (mut seen, mut count) = (BTreeMap::new(), 0);
                while count < FRAMES as usize {
                    count += reflect(&mut far, &mut seen);
                }
                while wharf_core::device::TxDevice::outstanding(&far.device) > 0 {
                    far.reap();
                }
                (far, seen)
            });
            let mut sender = queue.sender("test").unwrap();
            let mut burst = sender.burst(32);
            let mut next = 0;
            while next < FRAMES {
                sender.fill(&mut burst, 32.min((FRAMES - next) as usize), 60, Wait::Forever).unwrap();
                for bytes in burst.iter_mut() {
                    bytes.fill(0);
                    bytes[11] = (next * 5 % u64::from(FLOWS)) as u8;
                    bytes[20..28].copy_from_slice(&next.to_be_bytes());
                    next += 1;
                }
                _ = sender.send(&mut burst, Wait::Forever).unwrap();
            }
            let (far, seen) = other.join().unwrap();
            let mut back: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
            for _ in 0..FRAMES {
                let (flow, number) = arrived.recv_timeout(Duration::from_secs(30)).unwrap();
                back.entry(flow).or_default().push(number);
            }
            assert_eq!(seen.len(), usize::from(FLOWS));
            for (flow, numbers) in &seen {
                assert!(numbers.is_sorted() && numbers.len() == FRAMES as usize / usize::from(FLOWS));
                assert_eq!(Some(numbers), back.get(flow), "flow {flow}");
            }
            drop((poller, sender));
            end(&queue, FRAMES);
            far.end();
        });
    }
}

#[test]
fn too_few_pairs_and_impossible_numbers_give_errors() {
    for (pairs, queues, what) in [
        (1, "2", "several queue pairs"),
        (2, "3", "has 2 queue pairs: 3 are wanted"),
        (2, "0", "1 to 32"),
        (2, "33", "1 to 32"),
    ] {
        let socket = Socket::new();
        let far = Far::new(&socket, pairs);
        let Err(error) = open(&socket.driver(&format!(",queues={queues}")), Direction::Send) else {
            panic!("{queues} of {pairs}")
        };
        let error = error.to_string();
        assert!(error.contains(what) && !error.contains('\n'), "{error}");
        far.end();
    }
}

const GET_FEATURES: u32 = 1;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const GET_PROTOCOL_FEATURES: u32 = 15;
const GET_QUEUE_NUM: u32 = 17;

/// Answers requests as a back end with two queue pairs. Returns the requests that came, each with its virtqueue.
fn heard(mut stream: UnixStream) -> Vec<(u32, u8)> {
    let (mut header, mut heard) = ([0; 12], Vec::new());
    while stream.read_exact(&mut header).is_ok() {
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        let mut body = vec![0; word(8) as usize];
        stream.read_exact(&mut body).unwrap();
        heard.push((word(0), body.first().copied().unwrap_or_default()));
        let answer: u64 = match word(0) {
            GET_FEATURES => 1 << 32 | 1 << 30 | 1 << 22,
            GET_PROTOCOL_FEATURES => 1,
            GET_QUEUE_NUM => 2,
            _ => continue,
        };
        let reply = [word(0), 1 | 4, 8].map(u32::to_ne_bytes).concat();
        stream.write_all(&[reply, answer.to_ne_bytes().to_vec()].concat()).unwrap();
    }
    heard
}

/// Open vSwitch asks DPDK's vhost how many virtqueues there are as soon as the first pair is whole, and never
/// serves those that it hears of later.
#[test]
fn a_back_end_hears_of_every_virtqueue_before_it_can_start_the_first_one() {
    let socket = Socket::new();
    let listener = UnixListener::bind(socket.path()).unwrap();
    let far = std::thread::spawn(move || heard(listener.accept().unwrap().0));
    let mut device = open(&socket.driver(",queues=2"), Direction::Both).unwrap().device;
    device.attach(pool(64).region().clone()).unwrap();
    drop(device);
    let heard = far.join().unwrap();
    let first_kick = heard.iter().position(|(request, _)| *request == SET_VRING_KICK).unwrap();
    let calls = heard[..first_kick].iter().filter(|(request, _)| *request == SET_VRING_CALL);
    assert_eq!(calls.map(|(_, index)| *index).collect::<Vec<_>>(), [0, 1, 2, 3], "{heard:?}");
}

//! Back ends that do what chance says: answers at will, memory scribbled over, calls without reason, ends at any moment. The driver
//! survives each, accounts for its frames, and the next back end, which keeps the rules, has a frame.
//! `WHARF_HOSTILE=200 cargo test --release -p wharf-devices --test suite chance`.

use super::pair::{Far, Socket, end, send};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_core::queue::TxQueue;
use wharf_core::random::SplitMix64;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::open::{Direction, open};
use wharf_testkit::{assert_conserved, pool};

const NEED_REPLY: u32 = 8;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_CALL: u32 = 13;
/// GET_FEATURES, GET_VRING_BASE, GET_PROTOCOL_FEATURES, GET_QUEUE_NUM: those that want an answer.
const QUESTIONS: [u32; 4] = [1, 11, 15, 17];
/// The bound for the next back end. The time that it took is printed.
const NEXT: Duration = Duration::from_secs(10);

/// Descriptors that the driver has given to its back end.
#[derive(Default)]
struct Given {
    memory: Vec<File>,
    calls: Vec<File>,
}

/// Answers `request`, which holds `body`: mostly as it should be.
fn answer(chance: &mut SplitMix64, stream: &mut UnixStream, request: u32, flags: u32, body: &[u8]) -> bool {
    let word = match request {
        _ if chance.below(40) == 0 => chance.draw(),
        1 => (1 << 32) | (1 << 30) | (chance.draw() & (1 << 15 | 1 << 34 | 1 << 35)),
        15 => 1 << 3,
        17 => 1,
        11 => u64::from(u32::from_ne_bytes(body[..4].try_into().unwrap_or_default())),
        _ => 0,
    };
    if !QUESTIONS.contains(&request) && flags & NEED_REPLY == 0 {
        return true;
    }
    let head = [request, 1 | 4, 8].map(u32::to_ne_bytes).concat();
    stream.write_all(&[head, word.to_ne_bytes().to_vec()].concat()).is_ok()
}

/// Takes one message. Returns false once the driver has closed the connection.
fn take(chance: &mut SplitMix64, stream: &mut UnixStream, given: &mut Given) -> bool {
    let mut bytes = [0; 4096];
    let Ok((count, file)) = stream.recv_with_fd(&mut bytes) else { return true };
    let mut rest = &bytes[..count];
    let word = |bytes: &[u8], at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut file = file;
    while rest.len() >= 12 {
        let (request, flags, len) = (word(rest, 0), word(rest, 4), word(rest, 8) as usize);
        let body = rest.get(12..12 + len).unwrap_or_default().to_vec();
        match request {
            SET_MEM_TABLE => given.memory.extend(file.take()),
            SET_VRING_CALL => given.calls.extend(file.take()),
            _ => {}
        }
        if !answer(chance, stream, request, flags, &body) {
            return false;
        }
        rest = rest.get(12 + len..).unwrap_or_default();
    }
    count > 0
}

/// Scribbles over what the driver shares, and calls.
fn scribble(chance: &mut SplitMix64, given: &mut Given) {
    for file in &given.memory {
        for _ in 0..chance.below(200) {
            let reach = [256, 8192, 1 << 18][chance.below(3) as usize];
            let word = [chance.draw(), chance.below(300), u64::MAX][chance.below(3) as usize];
            // A sealed or short file refuses what lies beyond it.
            let _ = file.write_at(&word.to_le_bytes()[..1 << chance.below(4)], chance.below(reach));
        }
    }
    given.calls.iter_mut().for_each(|call| _ = call.write(&1u64.to_ne_bytes()));
}

fn back_end(seed: u64, listener: &UnixListener) {
    let Ok((mut stream, _)) = listener.accept() else { return };
    let (mut chance, mut given, began) = (SplitMix64::new(seed), Given::default(), Instant::now());
    let ends_after = Duration::from_millis(5 + chance.below(60));
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    while began.elapsed() < ends_after && take(&mut chance, &mut stream, &mut given) {
        scribble(&mut chance, &mut given);
    }
}

/// Sends into a back end by chance. Returns the error of opening or of the device, if there was one.
fn survives(seed: u64, keys: &str) -> Option<String> {
    let socket = Socket::new();
    let listener = UnixListener::bind(socket.path()).unwrap();
    let thread = std::thread::spawn(move || back_end(seed, &listener));
    let opened = open(&socket.driver(keys), Direction::Both);
    let outcome = match opened {
        Err(error) => Some(error.to_string()),
        Ok(opened) => {
            let queue =
                TxQueue::builder_of(&pool(256), opened.device, Arc::new(HostClock), Arc::new(HostPark));
            // The device may find the connection broken as it is attached.
            match queue.map_err(Into::into).and_then(|queue| queue.build()) {
                Err(error) => Some(error.to_string()),
                Ok(queue) => run(&queue),
            }
        }
    };
    thread.join().unwrap();
    assert!(!outcome.as_ref().is_some_and(|error| error.contains('\n')), "one line: {outcome:?}");
    outcome
}

fn run(queue: &TxQueue) -> Option<String> {
    let (mut sender, began) = (queue.sender("test").unwrap(), Instant::now());
    while began.elapsed() < Duration::from_millis(50) {
        send(&mut sender, 16, 60);
        queue.poll();
    }
    drop(sender);
    queue.shutdown(Duration::ZERO);
    assert_conserved(queue);
    queue.counters().last_error()
}

#[test]
fn back_ends_by_chance_are_survived_and_the_next_one_is_served() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (runs, seed) = (number("WHARF_HOSTILE").unwrap_or(20), number("WHARF_SEED").unwrap_or(1));
    let (mut longest, mut told) = (Duration::ZERO, 0);
    for run in seed..seed + runs {
        println!("WHARF_SEED={run}");
        let keys = ["", ",packed=off", ",napi=off", ",queues=1"][(run % 4) as usize];
        told += usize::from(survives(run.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, keys).is_some());
        let (socket, began) = (Socket::new(), Instant::now());
        let mut far = Far::new(&socket, 1);
        let queue = super::pair::queue(&socket.driver(keys), 256);
        let mut sender = queue.sender("test").unwrap();
        assert_eq!(send(&mut sender, 1, 60), 1);
        assert_eq!(far.receive_all(), 1);
        drop(sender);
        end(&queue, 1);
        far.end();
        longest = longest.max(began.elapsed());
        assert!(longest < NEXT, "the next back end: {longest:?}");
    }
    println!("{runs} back ends from seed {seed}: {told} errors told, the next one served within {longest:?}");
}

//! Back ends that stop answering: each is given up after a while, whenever it is.

use super::pair::Socket;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use wharf_core::device::AnyDevice;
use wharf_devices::open::{Direction, open};
use wharf_testkit::pool;
use wharf_testkit::threads::within_a_minute;

const GET_FEATURES: u32 = 1;
const VERSION_1: u64 = 1 << 32;

/// Reads messages and answers the one that asks for features, as long as there are any.
fn answers_once(mut stream: UnixStream) {
    let mut header = [0; 12];
    while stream.read_exact(&mut header).is_ok() {
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        let mut body = vec![0; word(8) as usize];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        if word(0) == GET_FEATURES {
            let reply = [GET_FEATURES, 1 | 4, 8].map(u32::to_ne_bytes).concat();
            // It may have given up.
            let _ = stream.write_all(&[reply, VERSION_1.to_ne_bytes().to_vec()].concat());
        }
    }
}

/// The driver and a back end behind `serve`, which has the connection.
fn opened(keys: &str, serve: impl FnOnce(UnixStream) + Send + 'static) -> Result<AnyDevice, String> {
    let socket = Socket::new();
    let listener = UnixListener::bind(socket.path()).unwrap();
    std::thread::spawn(move || serve(listener.accept().unwrap().0));
    open(&socket.driver(keys), Direction::Both).map(|opened| opened.device).map_err(|error| error.to_string())
}

#[test]
fn one_that_never_answers_is_given_up_as_it_is_opened() {
    // It reads nothing, and its connection stands.
    let error = opened("", |_stream| std::thread::sleep(Duration::from_secs(3600))).err().unwrap();
    assert!(error.contains("the back end does not answer: "), "{error}");
}

/// With `copy=off` the back end has the driver's memory, and closing waits for its answer. Else it has copies, and closing waits
/// for a moment.
#[test]
fn one_that_does_not_stop_is_given_up_as_the_driver_closes() {
    for (keys, least_ms, most_ms) in [("", 100, 5_000), (",copy=off", 10_000, 60_000)] {
        let mut device = opened(keys, answers_once).unwrap();
        let pool = pool(64);
        device.attach(pool.region().clone()).unwrap();
        let began = Instant::now();
        device.close().unwrap();
        let took_ms = began.elapsed().as_millis();
        assert!((least_ms..most_ms).contains(&took_ms), "{keys}: {took_ms} ms");
        assert_eq!(device.tx_mut().unwrap().outstanding(), 0);
    }
}

/// What a back end has sent unasked stays unread, and does not hide that it goes.
#[test]
fn one_that_goes_behind_words_that_nothing_asked_for_is_missed() {
    let (goes, may_go) = std::sync::mpsc::channel();
    let serve = move |stream: UnixStream| {
        let mut other = stream.try_clone().unwrap();
        let answering = std::thread::spawn(move || answers_once(stream));
        may_go.recv().unwrap();
        other.write_all(&[0; 20]).unwrap();
        other.shutdown(std::net::Shutdown::Both).unwrap();
        answering.join().unwrap();
    };
    let mut device = opened("", serve).unwrap();
    device.attach(pool(64).region().clone()).unwrap();
    assert!(device.link().unwrap().is_ok());
    goes.send(()).unwrap();
    within_a_minute(move || {
        while device.link().unwrap().is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

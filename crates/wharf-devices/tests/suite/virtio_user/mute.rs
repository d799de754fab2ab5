//! Back ends that stop answering: each is given up after a while, whenever it is.

use super::pair::Socket;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};
use wharf_core::device::Duplex;
use wharf_devices::virtio_user::{VirtioUserOptions, open};
use wharf_testkit::pool;
use wharf_testkit::threads::{eventually, within_a_minute};

const SECOND: Duration = Duration::from_secs(1);
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
fn opened(
    options: VirtioUserOptions, serve: impl FnOnce(UnixStream) + Send + 'static,
) -> Result<Box<dyn Duplex>, String> {
    let socket = Socket::new();
    let listener = UnixListener::bind(socket.path()).unwrap();
    std::thread::spawn(move || serve(listener.accept().unwrap().0));
    open(&socket.path(), options).map_err(|error| error.to_string())
}

#[test]
fn one_that_never_answers_is_given_up_as_it_is_opened() {
    // It reads nothing, and its connection stands.
    let soon =
        VirtioUserOptions { answers_within: Duration::from_millis(300), ..VirtioUserOptions::default() };
    let (ends, ended) = std::sync::mpsc::channel::<()>();
    let error = opened(soon, move |_stream| _ = ended.recv()).err().unwrap();
    drop(ends);
    assert!(error.contains("the back end does not answer: "), "{error}");
}

/// With `copy=off` the back end has the driver's memory, and closing waits for its answer. Else it has copies, and closing waits
/// for a moment.
#[test]
fn one_that_does_not_stop_is_given_up_as_the_driver_closes() {
    let hour = Duration::from_secs(3600);
    for (copy, answers_within, least) in [(true, hour, Duration::from_millis(100)), (false, SECOND, SECOND)] {
        within_a_minute(move || {
            let options = VirtioUserOptions { copy, answers_within, ..VirtioUserOptions::default() };
            let pool = pool(64);
            // On a busy machine it may be late already as it starts.
            let started = || {
                let mut device = opened(options, answers_once).ok()?;
                device.attach(pool.region().clone()).is_ok().then_some(device)
            };
            let mut device = std::iter::repeat_with(started).flatten().next().unwrap();
            let began = Instant::now();
            device.close().unwrap();
            assert!(began.elapsed() >= least, "copy {copy}: {:?}", began.elapsed());
            assert_eq!(device.outstanding(), 0);
        });
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
    let mut device = opened(VirtioUserOptions::default(), serve).unwrap();
    device.attach(pool(64).region().clone()).unwrap();
    assert!(device.link().unwrap().is_ok());
    goes.send(()).unwrap();
    eventually(Duration::from_secs(60), || device.link().unwrap().is_err());
}

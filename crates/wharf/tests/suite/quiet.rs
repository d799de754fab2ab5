//! A device that notifies, and says that nothing is due before it does: its poller sleeps, and its stalls are
//! seen all the same.

use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wharf::device::{AnyDevice, Device, Kind, Notify, Opened, Registry, TxDevice, delegate};
use wharf::{Direction, Event, Port, Wait};
use wharf_testkit::gate::{Control, Gate};

const LONG: Duration = Duration::from_secs(20);

/// A [`Gate`] that notifies when its other end is written to.
struct Quiet {
    gate: Gate,
    line: UnixStream,
}

impl Notify for Quiet {
    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.line.as_raw_fd())
    }
}

#[deny(clippy::missing_trait_methods)]
impl Device for Quiet {
    delegate!(gate: name, mode, mode_reason, facts, set_line, link, attach, visit, close);
}

#[deny(clippy::missing_trait_methods)]
impl TxDevice for Quiet {
    delegate!(gate: info, transmit, flush, reap, outstanding, set_patience);

    fn next_completion_ns(&self) -> Option<u64> {
        (self.gate.outstanding() > 0).then_some(u64::MAX)
    }
}

static OPENED: Mutex<Option<(Arc<Control>, UnixStream)>> = Mutex::new(None);
static QUIET: Kind = Kind::new("quiet", "quiet", "a device of the test's own", |_, _| {
    let (gate, control) = Gate::new(1);
    let (line, end) = UnixStream::pair().unwrap();
    line.set_nonblocking(true).unwrap();
    *OPENED.lock().unwrap() = Some((control, end));
    Ok(vec![Opened::new(AnyDevice::tx(Quiet { gate, line }))])
});

#[test]
fn a_stall_of_a_device_that_sleeps_until_it_notifies_is_seen_and_so_is_its_end() {
    let registry = Registry::default().with(&QUIET).unwrap();
    let path =
        Port::builder("quiet", Direction::Send).registry(registry).stall_after(Duration::from_millis(200));
    let path = path.build().unwrap();
    let (control, mut end) = OPENED.lock().unwrap().take().unwrap();
    let (mut events, mut sender) = (path.events().unwrap(), path.sender("sender").unwrap());
    let mut burst = sender.burst(8);
    sender.fill(&mut burst, 8, 64, LONG).unwrap();
    burst.iter_mut().for_each(|packet| packet.fill(0));
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    drop(burst);
    let stalled = events.wait(LONG);
    assert!(matches!(stalled, Some(Event::Stalled { .. })), "{stalled:?}");
    control.allowed.store(usize::MAX / 2, SeqCst);
    std::io::Write::write_all(&mut end, &[1]).unwrap();
    let resumed = events.wait(LONG);
    assert!(matches!(resumed, Some(Event::Resumed { .. })), "{resumed:?}");
    assert!(path.drain(LONG));
    drop(sender);
    assert_eq!(path.close(LONG).out(), 0);
}

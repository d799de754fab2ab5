//! `Timeout`: ends a conversation whose other side has fallen silent. The `vhost` crate tries again whenever
//! a socket's own timeout has passed, so only a connection that is shut ends its waiting.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Guard: shuts a connection unless it is dropped in time.
#[derive(Debug)]
pub(super) struct Timeout {
    /// Dropped with the guard.
    _lives: SyncSender<()>,
}

impl Timeout {
    /// Starts a timeout of `time`; `is_late` is set if that passes.
    pub(super) fn new(socket: &UnixStream, time: Duration, is_late: &Arc<AtomicBool>) -> io::Result<Self> {
        let (lives, ended) = sync_channel::<()>(0);
        let (socket, is_late) = (socket.try_clone()?, is_late.clone());
        let wait = move || {
            if ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                is_late.store(true, Ordering::Release);
                // The connection may be gone.
                let _ = socket.shutdown(Shutdown::Both);
            }
        };
        thread::Builder::new().name("virtio-patience".into()).spawn(wait)?;
        Ok(Self { _lives: lives })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn silent_peer_is_cut_off_and_timely_peer_is_not() {
        let is_late = Arc::new(AtomicBool::new(false));
        let (mut near, mut far) = UnixStream::pair().unwrap();
        drop(Timeout::new(&near, Duration::from_secs(3600), &is_late).unwrap());
        far.write_all(b"a").unwrap();
        near.read_exact(&mut [0]).unwrap();
        assert!(!is_late.load(Ordering::Acquire));
        let _patience = Timeout::new(&near, Duration::from_millis(1), &is_late).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 0, "shut");
        assert!(is_late.load(Ordering::Acquire));
    }
}

//! A thread that keeps a mirror up to date.

use crate::mirror::Mirror;
use crate::tables::Tables;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const REST: Duration = Duration::from_secs(3600);

/// The thread of a mirror. It ends when this is dropped; the tables stay as they were.
#[derive(Debug)]
pub struct Watch {
    tables: Tables,
    stop: Arc<OwnedFd>,
}

impl Watch {
    /// Returns the tables, for any number of threads.
    pub fn tables(&self) -> Tables {
        self.tables.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It waits for nobody: the thread sees it and ends.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
    }
}

impl Mirror {
    /// Gives the mirror to a thread of its own.
    ///
    /// # Errors
    /// The system's: out of descriptors or threads.
    pub fn spawn(self) -> io::Result<Watch> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let watch = Watch { tables: self.tables(), stop: stop.clone() };
        thread::Builder::new().name("wharf-net".into()).spawn(move || run(self, &stop))?;
        Ok(watch)
    }
}

fn run(mut mirror: Mirror, stop: &OwnedFd) {
    let mut word = [0; 8];
    while rustix::io::read(stop, &mut word).is_err() {
        // A fault makes the next turn dump everything anew: nothing else is to be done about it.
        if mirror.wait(REST, Some(stop.as_fd())).is_err() || mirror.turn().is_err() {
            thread::sleep(Duration::from_millis(100));
        }
    }
}

//! `Keys`: the keys of the terminal, until it is gone.

use anyhow::{Context, bail};
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The terminal that keys come from: standard input, or the process's own.
pub(super) struct Keys(Option<File>);

impl Keys {
    /// Finds the terminal, as `crossterm` does.
    pub(super) fn open() -> anyhow::Result<Self> {
        if std::io::stdin().is_terminal() {
            return Ok(Self(None));
        }
        Ok(Self(Some(File::open("/dev/tty").context("no terminal to read keys from")?)))
    }

    /// Returns the keys pressed by now; waits for the first, for `most` at most. A terminal that is gone is an error.
    ///
    /// `crossterm` looks at the keys only when there are some: of a terminal that is gone it reads for ever.
    pub(super) fn pressed(&self, most: Duration) -> anyhow::Result<Vec<Event>> {
        let stdin = std::io::stdin();
        let terminal: BorrowedFd<'_> = self.0.as_ref().map_or(stdin.as_fd(), AsFd::as_fd);
        let mut looks = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
        let most = Timespec::try_from(most).context("cannot wait for keys")?;
        match poll(&mut looks, Some(&most)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for keys"),
        }
        let [look] = &looks;
        if look.revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            bail!("the terminal is gone");
        }
        let mut events = Vec::new();
        while look.revents().contains(PollFlags::IN)
            && event::poll(Duration::ZERO).context("cannot read the keys")?
        {
            events.push(event::read().context("cannot read the keys")?);
        }
        Ok(events)
    }
}

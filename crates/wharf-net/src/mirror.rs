//! The mirror: dumps, then events, in the network namespace of the thread that opens it.
//!
//! Events are subscribed to before the first dump, and those that come during a dump are applied behind it.
//! So an event may be applied to what has it already, never missed. An event that does not say what the
//! kernel has now, and what the kernel changes without a word, make the part that it is of be dumped anew.

use crate::inbox::Inbox;
use crate::kernel::{
    BRIDGE, Fact, GET_ADDRESS, GET_LINK, GET_NEIGHBOUR, GET_NETCONF, GET_OBJECT, GET_ROUTE, GET_RULE, IPV4,
    IPV6, MAIN, RouteKind, default_rules, fact_of,
};
use crate::routes::Outcome;
use crate::socket::{Dumped, Socket, dump_of, wait};
use crate::state::{Snapshot, State, part};
use crate::tables::{Shared, Tables};
use crate::wire::{ACK, Message, Request, messages};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A dump that was interrupted so often in a row is taken as it is, and done again later.
const INTERRUPTIONS_MAX: u32 = 3;
/// How often the MTUs of paths are asked for, since no event tells of them.
const EXCEPTIONS_EVERY: Duration = Duration::from_secs(1);
/// In a larger table the kernel takes too long to find them: up to a second for a million.
const EXCEPTIONS_PREFIXES_MAX: usize = 100_000;
/// Dumps of a part that events ask for take at most a fifth of the time.
const REST_PER_DUMP: u32 = 4;

/// The fixed bytes of a question about the loopback interface.
const LOOPBACK: [u8; 16] = [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const PARTS: usize = part::ALL.count_ones() as usize;

/// Each part, with what a dump of it asks for: the message, and its fixed bytes.
const DUMPS: [(u16, u16, &[u8]); 12] = [
    (part::LINKS, GET_LINK, &[0; 16]),
    (part::LINKS, GET_NETCONF, &[IPV6, 0, 0, 0]),
    (part::ADDRESSES, GET_ADDRESS, &[0; 8]),
    (part::RULES, GET_RULE, &[IPV4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (part::RULES, GET_RULE, &[IPV6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (part::OBJECTS, GET_OBJECT, &[0; 8]),
    (part::ROUTES_V4, GET_ROUTE, &[IPV4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (part::ROUTES_V6, GET_ROUTE, &[IPV6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (part::NEIGHBOURS, GET_NEIGHBOUR, &[0; 12]),
    (part::FDB, GET_NEIGHBOUR, &[BRIDGE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    (part::EXCEPTIONS, GET_ROUTE, &[IPV4, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0]),
    (part::EXCEPTIONS, GET_ROUTE, &[IPV6, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0]),
];

/// A mirror of the kernel's tables, in one network namespace. A thread ([`spawn`](Mirror::spawn)) or the
/// user's own loop ([`turn`](Mirror::turn)) keeps it up to date; [`tables`](Mirror::tables) are for those who
/// look up.
#[derive(Debug)]
pub struct Mirror {
    inbox: Inbox,
    questions: Socket,
    /// `None` if the kernel does not filter dumps (before 4.20).
    strict: Option<Socket>,
    state: State,
    shared: Arc<Shared>,
    /// Snapshots that a reader may still hold. They are dropped here: what a table takes to free is no
    /// sender's time.
    retired: Vec<Arc<Snapshot>>,
    sequence: u32,
    wanted: u16,
    changed: bool,
    /// By part: no dump of it before.
    rest_until: [Instant; PARTS],
    exceptions_due: Instant,
}

impl Mirror {
    /// Opens a mirror, and fills it.
    ///
    /// # Errors
    /// The system's: out of descriptors or memory, or a kernel without rtnetlink.
    pub fn open() -> io::Result<Self> {
        let now = Instant::now();
        let mut mirror = Self {
            inbox: Inbox::open()?,
            questions: Socket::open(false)?,
            strict: Socket::open(true).ok(),
            state: State::default(),
            shared: Arc::default(),
            retired: Vec::new(),
            sequence: 0,
            wanted: part::ALL,
            changed: false,
            rest_until: [now; PARTS],
            exceptions_due: now + EXCEPTIONS_EVERY,
        };
        mirror.turn()?;
        Ok(mirror)
    }

    /// Returns the tables, for any number of threads.
    pub fn tables(&self) -> Tables {
        Tables::new(self.shared.clone())
    }

    /// Returns true if nothing is left to be dumped anew: the tables are what the kernel has told so far.
    pub fn is_current(&self) -> bool {
        self.wanted == 0
    }

    /// Takes in what the kernel has told, and dumps what is to be dumped anew. It waits for no event. Returns
    /// true if something changed.
    ///
    /// # Errors
    /// The system's. The next turn dumps everything anew.
    pub fn turn(&mut self) -> io::Result<bool> {
        let done = self.try_turn();
        if done.is_err() {
            self.wanted = part::ALL;
            self.rest_until = [Instant::now() + Duration::from_millis(100); PARTS];
        }
        done
    }

    /// Returns the time at which the next [`turn`](Mirror::turn) is due, though the kernel reports nothing: a
    /// dump that was put off, or the MTUs of paths.
    pub fn due(&self) -> Instant {
        let wanted = parts_of(self.wanted).map(|part| self.rest_until[place_of(part)]);
        wanted.fold(self.exceptions_due, Instant::min)
    }

    /// Waits until the kernel has told something, a dump is due, or `within` is over. `also` ends the wait,
    /// too.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&self, within: Duration, also: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let within = within.min(self.due().saturating_duration_since(Instant::now()));
        let fds = [Some(self.inbox.as_fd()), also];
        wait(&fds.into_iter().flatten().collect::<Vec<_>>(), Some(within)).map(drop)
    }

    fn try_turn(&mut self) -> io::Result<bool> {
        self.inbox.receive_batch()?;
        self.apply();
        let now = Instant::now();
        if now >= self.exceptions_due {
            self.follow_exceptions();
            self.exceptions_due = now + EXCEPTIONS_EVERY;
        }
        if self.due_parts(now) != 0 {
            // Events from before a dump are older than what it brings.
            self.inbox.receive_all()?;
            self.apply();
            self.dump(self.due_parts(now))?;
            self.apply();
        }
        let changed = std::mem::take(&mut self.changed);
        if changed {
            self.retired.push(self.shared.publish(self.state.snapshot()));
            self.retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
        }
        Ok(changed)
    }

    /// Has the MTUs of paths dumped, or drops them where that takes too long.
    fn follow_exceptions(&mut self) {
        if self.state.prefixes() <= EXCEPTIONS_PREFIXES_MAX {
            self.wanted |= part::EXCEPTIONS;
        } else if self.state.now.exceptions.iter().any(|of_family| !of_family.is_empty()) {
            self.state.adopt(part::EXCEPTIONS, State::default());
            self.changed = true;
        }
    }

    /// Returns the parts that are wanted, and have rested.
    fn due_parts(&self, now: Instant) -> u16 {
        parts_of(self.wanted).filter(|part| now >= self.rest_until[place_of(*part)]).sum()
    }

    /// Applies the events that were received.
    fn apply(&mut self) {
        for _ in 0..self.inbox.take_losses() {
            self.shared.note_overrun();
            self.wanted = part::ALL;
        }
        let pending = self.inbox.take();
        for message in messages(&pending) {
            let (outcome, parts) = self.state.take(&message);
            self.changed |= outcome != Outcome::Same;
            self.wanted |= parts;
        }
        self.inbox.give_back(pending);
    }

    /// Waits until the kernel has finished the change of which it has sent an event: it changes routes and
    /// next hops behind it, under `rtnl_lock`, which a question about a link takes and a dump of routes
    /// does not.
    fn let_finish(&mut self) -> io::Result<()> {
        self.sequence += 1;
        let question = Request::new(GET_LINK, ACK, self.sequence, &LOOPBACK);
        self.questions.dump(question, self.sequence, &mut |_| (), &mut || Ok(())).map(drop)
    }

    /// Dumps some parts.
    fn dump(&mut self, parts: u16) -> io::Result<()> {
        self.wanted &= !parts;
        if parts & part::SILENT != 0 {
            self.let_finish()?;
        }
        for part in parts_of(parts) {
            let before = processor_time();
            let mut dumped = State::default();
            for attempt in 1.. {
                dumped = State::default();
                if self.dump_part(&mut dumped, part)? == Dumped::Whole {
                    break;
                }
                if attempt == INTERRUPTIONS_MAX {
                    self.wanted |= part;
                    break;
                }
            }
            self.changed |= part != part::EXCEPTIONS || dumped.now.exceptions != self.state.now.exceptions;
            self.state.adopt(part, dumped);
            // Time in which the thread had no processor is none that a dump took.
            let rest = processor_time().saturating_sub(before) * REST_PER_DUMP;
            self.rest_until[place_of(part)] = Instant::now() + rest;
        }
        Ok(())
    }

    /// Returns true if the kernel searches IPv4's tables `local` and `main` as one: it finds an address of
    /// its own in
    /// `main` then.
    fn is_one_table(&mut self) -> bool {
        const WITH_TABLE: [u8; 12] = [IPV4, 32, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];
        self.sequence += 1;
        let question = Request::new(GET_ROUTE, ACK, self.sequence, &WITH_TABLE).with(1, &[127, 0, 0, 1]);
        let mut is_main = false;
        let mut see = |message: &Message<'_>| {
            if let Some(Fact::Route(found)) = fact_of(message.kind, message.body) {
                is_main = found.table == MAIN && found.route.kind == RouteKind::Local;
            }
        };
        let asked = self.questions.dump(question, self.sequence, &mut see, &mut || Ok(()));
        asked.is_ok() && is_main
    }

    fn dump_part(&mut self, dumped: &mut State, part: u16) -> io::Result<Dumped> {
        let mut ended = Dumped::Whole;
        for (_, kind, fixed) in DUMPS.iter().filter(|(of, _, _)| *of == part) {
            self.sequence += 1;
            let Self { inbox, questions, strict, .. } = self;
            let socket = if part == part::EXCEPTIONS { strict.as_ref() } else { Some(&*questions) };
            let Some(socket) = socket else { continue };
            let one = socket.dump(
                dump_of(*kind, self.sequence, fixed),
                self.sequence,
                &mut |message| {
                    if let Some(fact) = fact_of(message.kind, message.body) {
                        dumped.fill(fact);
                    }
                },
                &mut || inbox.receive_all(),
            )?;
            ended = if one == Dumped::Whole { ended } else { one };
        }
        if part == part::RULES {
            let none = dumped.now.rules.iter_mut().filter(|rules| rules.is_empty());
            none.for_each(|rules| *rules = Arc::new(default_rules()));
            dumped.now.is_one_table = self.is_one_table();
        }
        Ok(ended)
    }
}

/// Yields the parts of a set.
fn parts_of(set: u16) -> impl Iterator<Item = u16> {
    (0..PARTS).map(|place| 1 << place).filter(move |part| set & part != 0)
}

fn place_of(part: u16) -> usize {
    part.trailing_zeros() as usize
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl AsFd for Mirror {
    /// Readable once the kernel has told something: time for a [`turn`](Mirror::turn). A loop that waits for
    /// it also takes a turn at [`due`](Mirror::due), since a dump may be put off.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.as_fd()
    }
}

#[cfg(test)]
mod tests;

//! `Mock`: takes descriptors and completes them as `__xsk_generic_xmit` of Linux does.
//!
//! Above all: it says how far it is only when it has sent a frame, or when it looks for more.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use wharf_devices::iface::State;
use wharf_devices::link::Health;
use wharf_devices::xdp::sending::tx::Kernel;
use wharf_sys::errno::{EAGAIN, EBUSY, ENETDOWN, ENXIO};
use wharf_sys::xdp::{Consumer, Descriptor, PACKET_CONTINUES, Producer, Shared};

/// The fate of the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Send,
    /// It is dropped by the interface: EBUSY.
    Drop,
    /// There is no room, or no memory: that error.
    Refuse(i32),
}

#[derive(Debug)]
pub struct Inside {
    transmit: Consumer<Descriptor>,
    completion: Producer<u64>,
    /// Descriptors known to it and not taken.
    cached: u32,
    /// Frames that it takes in one call.
    pub budget: u32,
    pub state: State,
    pub kicks: u32,
    /// The event for each frame, in turn; after the last, all are sent.
    pub events: std::collections::VecDeque<Event>,
    /// Taken and not completed, the addresses of each frame.
    pub under_way: Vec<Vec<u64>>,
    /// All descriptors taken.
    pub taken: Vec<Descriptor>,
    /// First addresses of frames that were dropped.
    pub dropped: Vec<u64>,
}

#[derive(Debug, Clone)]
pub struct Mock(Arc<Mutex<Inside>>);

impl Mock {
    pub fn new(transmit: &Shared<Descriptor>, completion: &Shared<u64>) -> Self {
        let (transmit, completion) = (Consumer::new(transmit.clone()), Producer::new(completion.clone()));
        Self(Arc::new(Mutex::new(Inside {
            transmit,
            completion,
            cached: 0,
            budget: 32,
            state: State::Up,
            kicks: 0,
            events: Default::default(),
            under_way: Vec::new(),
            taken: Vec::new(),
            dropped: Vec::new(),
        })))
    }

    pub fn with<R>(&self, change: impl FnOnce(&mut Inside) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inside {
    fn has_more(&mut self) -> bool {
        if self.cached == 0 {
            self.transmit.release();
            self.cached = self.transmit.ready();
        }
        self.cached > 0
    }

    /// The addresses of the next frame.
    fn take(&mut self) -> Vec<u64> {
        let mut addresses = Vec::new();
        loop {
            assert!(self.cached > 0, "half a packet was published");
            self.cached -= 1;
            let descriptor = self.transmit.take().unwrap();
            assert!(descriptor.len > 0 && descriptor.len <= 4096, "{descriptor:?}");
            addresses.push(descriptor.addr);
            self.taken.push(descriptor);
            if descriptor.options & PACKET_CONTINUES == 0 {
                return addresses;
            }
        }
    }

    fn xmit(&mut self, is_sent: &mut bool) -> Result<(), i32> {
        let mut budget = self.budget;
        while self.has_more() {
            let reserved: usize = self.under_way.iter().map(Vec::len).sum();
            if budget == 0 || self.completion.room() as usize <= reserved {
                return Err(EAGAIN);
            }
            budget -= 1;
            match self.events.pop_front().unwrap_or(Event::Send) {
                Event::Refuse(error) => return Err(error),
                Event::Send => {
                    let frame = self.take();
                    self.under_way.push(frame);
                    *is_sent = true;
                }
                Event::Drop => {
                    let frame = self.take();
                    self.dropped.push(frame[0]);
                    self.complete(frame);
                    return Err(EBUSY);
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, frame: Vec<u64>) {
        for address in frame {
            assert!(self.completion.put(address), "a completion without a place");
        }
        self.completion.publish();
    }

    /// Completes the frame that was taken as number `at` of those under way.
    pub fn complete_one(&mut self, at: usize) {
        let frame = self.under_way.swap_remove(at);
        self.complete(frame);
    }

    pub fn complete_all(&mut self) {
        while !self.under_way.is_empty() {
            self.complete_one(0);
        }
    }

    /// Completes a frame that it never got.
    pub fn lie(&mut self, address: u64) {
        self.complete(vec![address]);
    }
}

impl Kernel for Mock {
    fn kick(&self) -> io::Result<()> {
        self.with(|inside| {
            inside.kicks += 1;
            match inside.state {
                State::Gone => return Err(io::Error::from_raw_os_error(ENXIO)),
                State::Down if inside.events.is_empty() => {
                    return Err(io::Error::from_raw_os_error(ENETDOWN));
                }
                _ => {}
            }
            let mut is_sent = false;
            let result = inside.xmit(&mut is_sent);
            if is_sent {
                inside.transmit.release();
            }
            result.map_err(io::Error::from_raw_os_error)
        })
    }

    fn wake(&self) {}

    fn look(&self, health: &mut Health) {
        let state = self.with(|inside| inside.state);
        match state {
            State::Up => health.come_back(),
            _ => health.change(state, "as told", io::Error::from_raw_os_error(ENETDOWN)),
        }
    }

    fn takes_at_once(&self) -> bool {
        true
    }
}

/// Numbers without a pattern, the same ones every time.
#[derive(Debug)]
pub struct Random(RefCell<u64>);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(RefCell::new(seed | 1))
    }

    pub fn below(&self, bound: usize) -> usize {
        let mut state = self.0.borrow_mut();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 11) as usize % bound.max(1)
    }
}

//! A libibverbs for tests: its functions are those of this file, and answer as a test says. What a test may say is anything: it lies.
//!
//! Each [`FakeDevice`] has a name of its own, and one context at a time. A completion that is not injected is an honest one: of a request
//! that was posted, in order.

mod functions;
mod list;

use super::Library;
use super::abi::{EVENT_DEVICE_FATAL, IbvWc, WC_GRH};
use super::context::Gid;
use functions::FUNCTIONS;
use libc::{c_char, c_int};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wharf_sys::event::EventFd;

/// Number of the queue pair of each device.
pub const QUEUE_PAIR: u32 = 0x11;
/// Bytes that a queue pair takes inline.
pub const INLINE_BYTES: u32 = 96;

/// A datagram that was posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Number of the request.
    pub id: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The queue pair that it is sent to.
    pub queue_pair: u32,
    /// True if its completion is reported.
    pub is_signaled: bool,
    /// True if it was copied into the request.
    pub is_inline: bool,
    /// Number of the call that has posted it.
    pub call: u64,
}

/// A completion as a test injects it: numbers of `struct ibv_wc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lie {
    /// Number of the request.
    pub id: u64,
    /// `enum ibv_wc_status`.
    pub status: i32,
    /// Bytes received.
    pub len_bytes: u32,
    /// Sender's queue pair.
    pub source_queue_pair: u32,
    /// True if a route header precedes the datagram.
    pub has_route_header: bool,
}

#[derive(Default)]
struct State {
    posted: VecDeque<Sent>,
    memory: VecDeque<(u64, usize, u32)>,
    sent: VecDeque<IbvWc>,
    received: VecDeque<IbvWc>,
    calls: u64,
    refuse: Option<(usize, c_int)>,
    is_armed: [bool; 2],
    events: VecDeque<c_int>,
    notifications: VecDeque<usize>,
    is_down: bool,
    is_gone: bool,
    polls_beyond: bool,
    hides_refused: bool,
    keeps_queue_pair: bool,
    is_infiniband: bool,
    /// `enum ibv_mtu`.
    mtu: c_int,
    lacks_neighbours: bool,
    handles: u64,
}

struct Inner {
    name: [c_char; 64],
    gid: Gid,
    state: Mutex<State>,
    channel: EventFd,
    events: EventFd,
    /// Locked while the kernel looks for a neighbour.
    neighbours: Arc<Mutex<()>>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A device, and the test's hand on it.
#[derive(Clone)]
pub struct FakeDevice(Arc<Inner>);

static DEVICES: Mutex<Vec<FakeDevice>> = Mutex::new(Vec::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

fn devices() -> MutexGuard<'static, Vec<FakeDevice>> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the library of these functions.
pub fn library() -> Library {
    Library(&FUNCTIONS)
}

impl FakeDevice {
    /// Makes one whose port has `gid`.
    pub fn new(gid: Gid) -> Self {
        let mut name = [0; 64];
        for (to, from) in name.iter_mut().zip(format!("fake{}", NEXT.fetch_add(1, Relaxed)).bytes()) {
            *to = from as c_char;
        }
        let event = || EventFd::new().expect("a descriptor");
        let state = Mutex::new(State { mtu: 3, ..State::default() });
        let (channel, events) = (event(), event());
        let made = Self(Arc::new(Inner { name, gid, state, channel, events, neighbours: Arc::default() }));
        devices().push(made.clone());
        made
    }

    /// Takes it out of the list of devices.
    pub fn forget(&self) {
        devices().retain(|known| !Arc::ptr_eq(&known.0, &self.0));
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        self.0.name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
    }

    /// Returns the datagrams that are posted and not complete.
    pub fn posted(&self) -> Vec<Sent> {
        self.0.state().posted.iter().cloned().collect()
    }

    /// Returns the numbers of requests that wait for datagrams.
    pub fn waiting(&self) -> Vec<u64> {
        self.0.state().memory.iter().map(|(id, ..)| *id).collect()
    }

    /// Completes the first `count` datagrams that are posted; only signalled ones are reported.
    pub fn complete(&self, count: usize) {
        let mut state = self.0.state();
        for _ in 0..count {
            let Some(sent) = state.posted.pop_front() else { break };
            if sent.is_signaled {
                state.sent.push_back(IbvWc { wr_id: sent.id, ..IbvWc::default() });
            }
        }
        self.notify(&mut state, 0);
    }

    /// Writes `route`, a route header, and `bytes` into the memory of the first request that waits, and completes it. Returns false if
    /// none waits, or it is too short.
    pub fn receive(&self, route: &[u8; 40], bytes: &[u8], source_queue_pair: u32) -> bool {
        let mut state = self.0.state();
        let Some((id, at, room)) = state.memory.pop_front() else { return false };
        let all = [route.as_slice(), bytes].concat();
        if all.len() > room as usize {
            return false;
        }
        // SAFETY: memory that was posted with so many bytes, of a region that is registered while the request waits.
        unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), at as *mut u8, all.len()) };
        let (byte_len, wc_flags) = (all.len() as u32, WC_GRH);
        state.received.push_back(IbvWc {
            wr_id: id,
            byte_len,
            src_qp: source_queue_pair,
            wc_flags,
            ..IbvWc::default()
        });
        self.notify(&mut state, 1);
        true
    }

    /// Puts a completion into the queue of sends, or of receptions.
    pub fn inject(&self, is_reception: bool, lie: Lie) {
        let mut state = self.0.state();
        let wc = IbvWc {
            wr_id: lie.id,
            status: lie.status,
            byte_len: lie.len_bytes,
            src_qp: lie.source_queue_pair,
            wc_flags: if lie.has_route_header { WC_GRH } else { 0 },
            ..IbvWc::default()
        };
        if is_reception {
            state.received.push_back(wc)
        } else {
            state.sent.push_back(wc)
        }
        self.notify(&mut state, usize::from(is_reception));
    }

    /// Makes the next post fail with `errno` behind its first `taken` requests.
    pub fn refuse(&self, taken: usize, errno: i32) {
        self.0.state().refuse = Some((taken, errno));
    }

    /// Makes posts that fail name no request.
    pub fn hide_refused(&self) {
        self.0.state().hides_refused = true;
    }

    /// Makes it refuse to destroy its queue pair.
    pub fn keep_queue_pair(&self) {
        self.0.state().keeps_queue_pair = true;
    }

    /// Sets the MTU of its port by the number of `enum ibv_mtu`: 3 is 1024 bytes, as at first, 5 is 4096.
    pub fn set_mtu(&self, number: i32) {
        self.0.state().mtu = number;
    }

    /// Makes its port one of InfiniBand.
    pub fn be_infiniband(&self) {
        self.0.state().is_infiniband = true;
    }

    /// Makes it find no neighbour's Ethernet address from now on, or find them again.
    pub fn lack_neighbours(&self, lacks: bool) {
        self.0.state().lacks_neighbours = lacks;
    }

    /// Returns what each call for an address handle locks: it waits while a test holds that.
    pub fn neighbours(&self) -> Arc<Mutex<()>> {
        self.0.neighbours.clone()
    }

    /// Returns the number of calls for an address handle so far.
    pub fn handles(&self) -> u64 {
        self.0.state().handles
    }

    /// Makes polls return more completions than there was room for.
    pub fn poll_beyond(&self) {
        self.0.state().polls_beyond = true;
    }

    /// Puts the port up or down, with an event (`IBV_EVENT_PORT_ACTIVE`, `IBV_EVENT_PORT_ERR`).
    pub fn set_port(&self, is_up: bool) {
        let mut state = self.0.state();
        state.is_down = !is_up;
        state.events.push_back(if is_up { 9 } else { 10 });
        self.0.events.signal();
    }

    /// Removes the device.
    pub fn remove(&self) {
        let mut state = self.0.state();
        state.is_gone = true;
        state.events.push_back(EVENT_DEVICE_FATAL);
        self.0.events.signal();
    }

    fn notify(&self, state: &mut State, queue: usize) {
        let has_some = !(if queue == 0 { &state.sent } else { &state.received }).is_empty();
        if has_some && std::mem::take(&mut state.is_armed[queue]) {
            state.notifications.push_back(queue);
            self.0.channel.signal();
        }
    }

    /// Returns the number of the call of posts, and how many of `count` requests it takes.
    fn call(&self, state: &mut State, count: usize) -> (u64, usize, c_int) {
        state.calls += 1;
        match state.refuse.take() {
            _ if state.is_gone => (state.calls, 0, libc::EIO),
            Some((taken, errno)) if taken < count => (state.calls, taken, errno),
            _ => (state.calls, count, 0),
        }
    }
}

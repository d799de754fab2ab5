//! Opening a queue to send, in the best way that works.

use super::super::program::{Program, Programs};
use super::super::{
    Refusal, Step, WaysTried, XdpOptions, bind, memory, metadata, patiently, registered, ways,
};
use super::{Made, Way};
use crate::link::Link;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf_mem::Region;
use wharf_sys::errno::{EAGAIN, EBUSY, ENETDOWN, ENOBUFS, EOPNOTSUPP};
use wharf_sys::interface::InterfaceSocket;
use wharf_sys::xdp::{
    Bind, Hook, PACKET_HEADROOM_BYTES, Producer, TxMetadataRoom, Umem, UmemShape, XdpSocket,
};

/// Descriptors of the fill ring of a socket that copies. It must exist, and stays empty, since nothing is received.
const FILL_ENTRIES: u32 = 64;
/// Descriptors of the receive ring, which some drivers want. It stays empty.
const RECEIVE_ENTRIES: u32 = 64;
/// Time that a driver may take to have a carrier again: it resets the adapter for a program.
const CARRIER_WITHIN: Duration = Duration::from_secs(6);
const NAP: Duration = Duration::from_millis(20);

/// A queue that is to be opened.
pub(super) struct Opening<'a> {
    pub(super) link: &'a Link,
    pub(super) options: &'a XdpOptions,
    pub(super) entries: u32,
    pub(super) programs: &'a Programs,
    pub(super) region: &'a Arc<Region>,
}

/// The parts that must live as long as a socket, beside its rings.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The program that passes arrivals to the host, for drivers that want one.
    pub(super) _program: Option<Arc<Program>>,
    pub(super) _umem: Option<Umem>,
    /// The room for metadata in front of its frames.
    pub(super) metadata: Option<TxMetadataRoom>,
}

impl Opening<'_> {
    /// Opens the queue in the best way that works, and notes those that do not.
    pub(super) fn best(&self, tried: &mut WaysTried) -> Result<(Arc<XdpSocket>, Made, Way), Refusal> {
        let mode = self.options.mode;
        let mut way = Way::first(mode, self.programs.is_there());
        loop {
            match self.make(way) {
                Ok((socket, made)) => {
                    let socket = Arc::new(socket);
                    if !way.zero_copy {
                        self.programs.add_owner(&socket, self.region, self.copying(way));
                    }
                    return Ok((socket, made, way));
                }
                Err(refusal) => {
                    tried.note(self.link, self.options.queue, way, &refusal);
                    way = way.after(mode, refusal.0, refusal.1.raw_os_error()).ok_or(refusal)?;
                }
            }
        }
    }

    fn socket(&self) -> io::Result<XdpSocket> {
        self.options.access.socket(&self.link.interface_name)
    }

    /// Returns the room for metadata: see [`metadata::room`].
    pub(super) fn metadata(&self, zero_copy: bool) -> Result<Option<TxMetadataRoom>, String> {
        metadata::room(self.link, self.region, (self.options, zero_copy), || self.socket())
    }

    fn make(&self, way: Way) -> Result<(XdpSocket, Made), Refusal> {
        let (index, queue) = (self.link.interface.index, self.options.queue);
        if !way.zero_copy {
            return self.make_copying(way);
        }
        if ways::never_zero_copy(self.link) {
            return Err((Step::Bind, io::Error::from_raw_os_error(EOPNOTSUPP)));
        }
        let had_program = self.programs.is_there();
        let program = way.program.then(|| self.programs.at(index, Hook::Native)).transpose()?;
        let (socket, umem, metadata) = self.in_place(way)?;
        let beside = Beside { _program: program, _umem: Some(umem), metadata };
        let made = Made::new(&socket, self.entries, beside)?;
        bind(&socket, index, queue, way.bind())?;
        if way.program && !had_program {
            self.await_carrier();
        }
        // Some drivers bind, but send only while a program is attached: the error comes with the first doorbell.
        patiently(&[ENETDOWN, EAGAIN], || socket.kick()).map_err(Step::Kick.refused())?;
        Ok((socket, made))
    }

    /// Returns the binding and the memory of a socket that copies.
    fn copying(&self, way: Way) -> (Bind, UmemShape) {
        (way.bind(), memory::to_send(self.region, self.metadata(false).unwrap_or_default()))
    }

    /// Binds a socket that copies. It shares the memory that another queue of the same opening has registered.
    fn make_copying(&self, way: Way) -> Result<(XdpSocket, Made), Refusal> {
        let (index, queue) = (self.link.interface.index, self.options.queue);
        let (how, shape) = self.copying(way);
        let owner = self.programs.owner_of(self.region, (how, shape));
        let socket = match &owner {
            Some(_) => self.socket().map_err(Step::Rings.refused())?,
            None => registered(self.socket(), self.region, &shape)?,
        };
        socket.fill_ring(FILL_ENTRIES).map_err(Step::Rings.refused())?;
        let beside = Beside { metadata: shape.metadata, ..Beside::default() };
        let made = Made::new(&socket, self.entries, beside)?;
        let bound = patiently(&[EBUSY], || match &owner {
            Some(owner) => socket.bind_sharing(index, queue, owner),
            None => socket.bind(index, queue, how),
        });
        bound.map_err(Step::Bind.refused())?;
        Ok((socket, made))
    }

    /// Makes a socket that sends from the pool's memory, with a filled fill ring: the driver gives it no other memory for what
    /// arrives at its queue, and that is the host's.
    fn in_place(&self, way: Way) -> Result<(XdpSocket, Umem, Option<TxMetadataRoom>), Refusal> {
        let rings = Step::Rings.refused();
        let unfit = |why: String| (Step::Register, io::Error::other(why));
        let shape =
            memory::to_send_in_place(self.region, way.aligned, self.metadata(true).unwrap_or_default());
        let shape = shape.map_err(unfit)?;
        if !way.multi_buffer {
            self.check_arrivals(&shape).map_err(unfit)?;
        }
        let umem = Umem::new(self.region.mapping(), memory::SPARE_BYTES).map_err(Step::Register.refused())?;
        let socket = self.socket().map_err(&rings)?;
        let register = || socket.register_umem(&umem, &shape);
        patiently(&[ENOBUFS], register).map_err(Step::Register.refused())?;
        let mut fill: Producer<u64> = socket.fill_ring(memory::SPARE_BUFFERS).map_err(&rings)?;
        let buffers = (0..memory::SPARE_BUFFERS as u64).map(|at| at * u64::from(shape.chunk_bytes));
        fill.put_all(buffers.map(|at| umem.spare_at() as u64 + at));
        fill.publish();
        socket.receive_ring(RECEIVE_ENTRIES).map_err(&rings)?;
        Ok((socket, umem, shape.metadata))
    }

    /// Checks that the longest arrival fits a buffer.
    fn check_arrivals(&self, shape: &UmemShape) -> Result<(), String> {
        let driver = self.link.driver().unwrap_or_default();
        let (room, most) = (memory::packet_bytes(&driver, shape), self.link.longest_arrival_bytes());
        if most <= room {
            return Ok(());
        }
        Err(format!(
            "what arrives for the host has up to {most} bytes, and a buffer of {} has room for {room}",
            shape.chunk_bytes - PACKET_HEADROOM_BYTES
        ))
    }

    /// Waits, for a while, until the adapter has a carrier again.
    fn await_carrier(&self) {
        let Ok(asker) = InterfaceSocket::open() else { return };
        let until = Instant::now() + CARRIER_WITHIN;
        let has_one = || self.link.interface.state(asker.as_fd()).is_ok_and(|state| state.is_running);
        while !has_one() && Instant::now() < until {
            std::thread::sleep(NAP);
        }
    }
}

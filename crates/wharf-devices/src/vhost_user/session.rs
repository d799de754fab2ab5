//! `Session`: the effect of one connection's messages on the virtqueues. The `vhost` crate reads, checks and
//! answers the messages (QEMU, docs/interop/vhost-user.rst).

mod messages;

use super::link::Link;
use super::vring::Agreed;
use crate::virtio::{DirtyLog, Memory, MemoryRegion, RingError, feature};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use vhost::vhost_user::message::*;
use vhost::vhost_user::{Error, Result};
use wharf_sys::event::EventFd;
use wharf_sys::shared::{Area, seal};

/// Features offered to a driver.
const FEATURES: u64 = feature::CSUM
    | feature::GUEST_CSUM
    | feature::GUEST_TSO4
    | feature::GUEST_TSO6
    | feature::GUEST_ECN
    | feature::HOST_ECN
    | feature::HOST_TSO4
    | feature::HOST_TSO6
    | feature::HOST_USO
    | feature::GUEST_USO
    | feature::GUEST_HDRLEN
    | feature::GUEST_ANNOUNCE
    | feature::MTU
    | feature::LOG_ALL
    | feature::MRG_RXBUF
    | feature::INDIRECT
    | feature::EVENT_IDX
    | feature::VHOST_PROTOCOL
    | feature::VERSION_1
    | feature::PACKED
    | feature::IN_ORDER;

const PROTOCOL_FEATURES: VhostUserProtocolFeatures = VhostUserProtocolFeatures::MQ
    .union(VhostUserProtocolFeatures::REPLY_ACK)
    .union(VhostUserProtocolFeatures::LOG_SHMFD)
    .union(VhostUserProtocolFeatures::RARP)
    .union(VhostUserProtocolFeatures::MTU)
    .union(VhostUserProtocolFeatures::CONFIG)
    .union(VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    .union(VhostUserProtocolFeatures::STATUS)
    .union(VhostUserProtocolFeatures::INFLIGHT_SHMFD);

/// Most bytes of memory that one connection shares: a 32nd of what all peers may have ([`Area::of_peer`]).
/// Endless files of a few would take the addresses that the others need.
const MAPPED_BYTES_MAX: u64 = 2 << 40;
/// Most bytes of a log of pages, of all addresses that processors have, and of tables of what is in flight.
const NOTES_BYTES_MAX: u64 = 4 << 30;

pub(super) struct Session {
    link: Arc<Link>,
    offered: u64,
    agreed: Agreed,
    /// SET_FEATURES came: none may have been agreed upon.
    has_agreed: bool,
    protocol: VhostUserProtocolFeatures,
    memory: Arc<Memory>,
    /// Regions of the memory, by a table or one by one, with the number of times that each came.
    slots: Vec<(VhostUserMemoryRegion, MemoryRegion, u32)>,
    /// A region was removed, and the virtqueues stand still: it may come back, changed.
    rests: bool,
    /// SET_LOG_BASE.
    log: Option<DirtyLog>,
    /// SET_STATUS.
    status: u64,
    /// NET_SET_MTU.
    mtu_bytes: u16,
    /// The error of the last message, in words.
    fault: Option<String>,
    /// Bit n: request n was declined; the last bit stands for all beyond.
    declined: u64,
}

impl Session {
    /// Makes a session; features in `withheld` are not offered.
    pub(super) fn new(link: Arc<Link>, withheld: u64) -> Self {
        let several = if link.pairs() > 1 { feature::MQ } else { 0 };
        let offered = (FEATURES | several) & !withheld;
        let (agreed, memory) = (Agreed(0), Arc::default());
        let protocol = VhostUserProtocolFeatures::empty();
        Self {
            link,
            offered,
            agreed,
            has_agreed: false,
            protocol,
            memory,
            slots: Vec::new(),
            rests: false,
            log: None,
            status: 0,
            mtu_bytes: 0,
            fault: None,
            declined: 0,
        }
    }

    /// Returns the error in words, if it is known.
    pub(super) fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    /// Returns true if virtqueues may be enabled although the feature for it was not agreed upon yet.
    pub(super) fn enables_early(&self) -> bool {
        !self.agreed.has(feature::VHOST_PROTOCOL)
    }

    /// Returns true if `request` is one that is served, after what was agreed upon. Both requests of a
    /// device's state have an answer of their own, which declines.
    pub(super) fn serves(&self, request: u32) -> bool {
        use FrontendReq::*;
        match FrontendReq::try_from(request) {
            Ok(GET_FEATURES | SET_FEATURES | SET_OWNER | RESET_OWNER | SET_MEM_TABLE) => true,
            Ok(SET_VRING_NUM | SET_VRING_ADDR | SET_VRING_BASE | GET_VRING_BASE | SET_VRING_ENABLE) => true,
            Ok(SET_VRING_KICK | SET_VRING_CALL | SET_VRING_ERR) => true,
            Ok(GET_PROTOCOL_FEATURES | SET_PROTOCOL_FEATURES) => true,
            Ok(SET_DEVICE_STATE_FD | CHECK_DEVICE_STATE) => true,
            Ok(GET_QUEUE_NUM) => self.has(VhostUserProtocolFeatures::MQ),
            Ok(GET_INFLIGHT_FD | SET_INFLIGHT_FD) => self.has(VhostUserProtocolFeatures::INFLIGHT_SHMFD),
            Ok(SET_LOG_BASE) => self.has(VhostUserProtocolFeatures::LOG_SHMFD),
            Ok(GET_CONFIG | SET_CONFIG) => self.has(VhostUserProtocolFeatures::CONFIG),
            Ok(GET_MAX_MEM_SLOTS | ADD_MEM_REG | REM_MEM_REG) => {
                self.has(VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Reports a request that is declined, once for each number.
    pub(super) fn note_declined(&mut self, request: u32) {
        let bit = 1 << request.min(u64::BITS - 1);
        if self.declined & bit == 0 {
            self.declined |= bit;
            let what = match FrontendReq::try_from(request) {
                Ok(known) => format!("{known:?}, which was not agreed upon"),
                Err(_) => "which is unknown here".into(),
            };
            self.link.fault(format!("request {request} of the driver, {what}, is declined"));
        }
    }

    /// Returns true if messages that ask for it are acknowledged.
    pub(super) fn acknowledges(&self) -> bool {
        self.has(VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn has(&self, feature: VhostUserProtocolFeatures) -> bool {
        self.protocol.contains(feature)
    }

    /// Carries out one of the requests that the `vhost` crate does not know, with its word. Returns the word
    /// of the answer, if it has one of its own; `Err` if it is declined.
    pub(super) fn request(&mut self, request: u32, word: u64) -> std::result::Result<Option<u64>, ()> {
        use VhostUserProtocolFeatures as Feature;
        match FrontendReq::try_from(request) {
            Ok(FrontendReq::SEND_RARP) if self.has(Feature::RARP) => self.link.announce(word),
            Ok(FrontendReq::NET_SET_MTU) if self.has(Feature::MTU) && (68..=65535).contains(&word) => {
                self.mtu_bytes = word as u16;
            }
            Ok(FrontendReq::SET_STATUS) if self.has(Feature::STATUS) => self.status = word,
            Ok(FrontendReq::GET_STATUS) if self.has(Feature::STATUS) => return Ok(Some(self.status)),
            // The event of a new page: front ends read the log when they want to.
            Ok(FrontendReq::SET_LOG_FD) if self.has(Feature::LOG_SHMFD) => {}
            _ => {
                self.note_declined(request);
                return Err(());
            }
        }
        Ok(None)
    }

    /// Has the virtqueues go on in these regions, and in the log.
    fn remember(&mut self, regions: Vec<MemoryRegion>) -> Result<()> {
        let memory = match Memory::new(regions) {
            Ok(memory) => memory,
            Err(error) => return self.refuse(error),
        };
        let log = self.log.clone().filter(|_| self.agreed.has(feature::LOG_ALL));
        for mut vring in self.link.vrings() {
            vring.stop();
        }
        self.memory = Arc::new(memory.logged(log));
        if self.rests { Ok(()) } else { self.go_on() }
    }

    /// True if the virtqueues stand still until [`Session::end_rest`].
    pub(super) fn rests(&self) -> bool {
        self.rests
    }

    /// Has the virtqueues go on after a region was removed, unless `request` may be of the same change: QEMU
    /// takes regions away before it adds them changed. Buffers of a driver may lie there meanwhile.
    pub(super) fn end_rest(&mut self, request: Option<u32>) -> Result<()> {
        let is_change = |request| {
            matches!(FrontendReq::try_from(request), Ok(FrontendReq::ADD_MEM_REG | FrontendReq::REM_MEM_REG))
        };
        if !self.rests || request.is_some_and(is_change) {
            return Ok(());
        }
        self.rests = false;
        self.go_on()
    }

    /// Starts the virtqueues that lie in the present regions. Others stand still until their memory is back.
    fn go_on(&mut self) -> Result<()> {
        for index in 0..2 * self.link.pairs() {
            match self.link.start(index, &self.memory, self.agreed) {
                Ok(()) | Err(RingError::Place { .. }) => {}
                Err(error) => return self.refuse(format!("virtqueue {index}: {error}")),
            }
        }
        self.link.changed();
        Ok(())
    }

    fn remember_slots(&mut self) -> Result<()> {
        self.remember(self.slots.iter().map(|slot| slot.1.clone()).collect())
    }

    /// Returns the configuration (virtio 1.2, section 5.1.4): MAC, status, queue pairs and MTU.
    fn config(&self) -> [u8; 12] {
        const LINK_UP: u16 = 1;
        let words = [LINK_UP, self.link.pairs() as u16, self.mtu_bytes].map(u16::to_le_bytes);
        let mut config = [0; 12];
        config[6..].copy_from_slice(words.as_flattened());
        config
    }

    fn refuse<T>(&mut self, what: impl ToString) -> Result<T> {
        self.fault = Some(what.to_string());
        Err(Error::InvalidParam)
    }

    fn no_such<T>(&mut self, index: u32) -> Result<T> {
        self.refuse(format!("virtqueue {index}: there are {}", 2 * self.link.pairs()))
    }

    /// Starts virtqueue `index`, if all is known that it needs.
    fn start(&mut self, index: usize) -> Result<()> {
        match self.link.start(index, &self.memory, self.agreed) {
            Ok(()) => Ok(()),
            Err(error) => self.refuse(format!("virtqueue {index}: {error}")),
        }
    }

    /// Changes virtqueue `index`, which stands still meanwhile.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut super::vring::Vring)) -> Result<()> {
        let Some(mut vring) = self.link.vring(index as usize) else { return self.no_such(index) };
        vring.stop();
        change(&mut vring);
        drop(vring);
        self.start(index as usize)
    }

    /// Maps a region.
    fn map(&mut self, announced: &VhostUserMemoryRegion, file: &File) -> Result<MemoryRegion> {
        let VhostUserMemoryRegion { guest_phys_addr, memory_size, user_addr, mmap_offset } = *announced;
        let end = mmap_offset.saturating_add(memory_size);
        let area = self.map_file("a region of shared memory", end, MAPPED_BYTES_MAX, file)?;
        match MemoryRegion::new(guest_phys_addr, user_addr, &area, mmap_offset, memory_size) {
            Some(region) => Ok(region),
            None => self.refuse(format!(
                "a region of {memory_size} bytes at {guest_phys_addr:#x} goes beyond all addresses"
            )),
        }
    }

    /// Maps a file's bytes up to `end`, which is `most` at most; `what` they are.
    fn map_file(&mut self, what: &str, end: u64, most: u64, file: &File) -> Result<Arc<Area>> {
        if end > most {
            return self.refuse(format!("{what}: {end} bytes of a file: {most} at most"));
        }
        // Unsealable memory is rejected, or a fault in it ends the connection: see `install_sigbus_handler`.
        seal(file.as_fd());
        match Area::of_peer(file.as_fd(), end) {
            Ok(area) => Ok(Arc::new(area)),
            Err(error) => self.refuse(format!("{what}: {error}")),
        }
    }

    /// Returns the number of virtqueues whose tables of what is in flight are meant, and their size.
    fn tables(&mut self, tables: &VhostUserInflight) -> Result<[usize; 2]> {
        let (queues, size) = (usize::from(tables.num_queues), usize::from(tables.queue_size));
        if queues > 2 * self.link.pairs() || size > crate::virtio::SIZE_MAX.into() {
            return self.refuse(format!("what is in flight in {queues} virtqueues of {size}"));
        }
        Ok([queues, size])
    }

    /// Takes the event that came with a message for virtqueue `index`; none if it will be polled.
    fn event(&mut self, index: u8, what: &str, file: Option<File>) -> Result<Option<EventFd>> {
        if usize::from(index) >= 2 * self.link.pairs() {
            return self.no_such(index.into());
        }
        match file.map(|file| EventFd::of_peer(file.into())).transpose() {
            Ok(event) => Ok(event),
            Err(error) => self.refuse(format!("virtqueue {index}: {what}: {error}")),
        }
    }
}

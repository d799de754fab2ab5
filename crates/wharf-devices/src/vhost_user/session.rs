//! `Session`: the effect of one connection's messages on the virtqueues. The `vhost` crate reads, checks and
//! answers the messages (QEMU, docs/interop/vhost-user.rst).

use super::link::Link;
use super::vring::Agreed;
use crate::virtio::{Memory, MemoryRegion, feature};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::*;
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use wharf_sys::event::EventFd;
use wharf_sys::shared::{Area, seal};

/// Features offered to a driver.
const FEATURES: u64 = feature::CSUM
    | feature::GUEST_CSUM
    | feature::GUEST_TSO4
    | feature::GUEST_TSO6
    | feature::HOST_TSO4
    | feature::HOST_TSO6
    | feature::HOST_USO
    | feature::MRG_RXBUF
    | feature::INDIRECT
    | feature::EVENT_IDX
    | feature::VHOST_PROTOCOL
    | feature::VERSION_1
    | feature::PACKED
    | feature::IN_ORDER;

/// Most bytes that one connection's files have: an eighth of a process's addresses on x86-64. Mapping an endless file would
/// use up those of this process.
const MAPPED_BYTES_MAX: u64 = 16 << 40;

pub(super) struct Session {
    link: Arc<Link>,
    offered: u64,
    agreed: Agreed,
    protocol: VhostUserProtocolFeatures,
    memory: Arc<Memory>,
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
        Self { link, offered, agreed, protocol, memory, fault: None, declined: 0 }
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
            Ok(GET_QUEUE_NUM) => self.protocol.contains(VhostUserProtocolFeatures::MQ),
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
        self.protocol.contains(VhostUserProtocolFeatures::REPLY_ACK)
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
        // Unsealable memory is rejected, or a fault in it ends the connection: see `install_sigbus_handler`.
        seal(file.as_fd());
        let area = match Area::of_peer(file.as_fd(), end) {
            Ok(area) => Arc::new(area),
            Err(error) => return self.refuse(format!("a region of shared memory: {error}")),
        };
        match MemoryRegion::new(guest_phys_addr, user_addr, &area, mmap_offset, memory_size) {
            Some(region) => Ok(region),
            None => self.refuse(format!(
                "a region of {memory_size} bytes at {guest_phys_addr:#x} goes beyond all addresses"
            )),
        }
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

/// Messages of what the device does not offer, and the words for that.
macro_rules! refused {
    ($($name:ident($($any:tt: $of:ty),*) -> $what:ty: $words:expr;)*) => {
        $(fn $name(&mut self, $($any: $of),*) -> Result<$what> {
            self.refuse($words)
        })*
    };
}

const AT_ONCE: &str = "nothing is ever under way: buffers are used at once";
const SLOTS: &str = "regions of memory come all at once";
const STATELESS: &str = "a device without state to be moved";
const LOG: &str = "migration with a log of pages is not supported";

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.link.reset();
        self.agreed = Agreed(0);
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered != 0 {
            return self.refuse(format!("features {:#x}, which were not offered", features & !self.offered));
        }
        let agreed = Agreed(features);
        if agreed == self.agreed {
            return Ok(());
        }
        self.agreed = agreed;
        for index in 0..2 * self.link.pairs() as u32 {
            // Without protocol features there is no message to enable a virtqueue.
            let is_on = !agreed.has(feature::VHOST_PROTOCOL);
            self.change(index, |vring| {
                if is_on {
                    vring.enable(true);
                    vring.is_answer_enabled = true;
                }
            })?;
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self, announced: &[VhostUserMemoryRegion], files: Vec<File>, _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        if announced.len() != files.len() {
            return self.refuse(format!("{} regions and {} files", announced.len(), files.len()));
        }
        let ends = announced.iter().map(|region| region.mmap_offset.saturating_add(region.memory_size));
        let mapped_bytes = ends.fold(0, u64::saturating_add);
        if mapped_bytes > MAPPED_BYTES_MAX {
            return self.refuse(format!("{mapped_bytes} bytes of shared memory: {MAPPED_BYTES_MAX} at most"));
        }
        let regions: Result<Vec<MemoryRegion>> =
            announced.iter().zip(&files).map(|(announced, file)| self.map(announced, file)).collect();
        let memory = match Memory::new(regions?) {
            Ok(memory) => Arc::new(memory),
            Err(error) => return self.refuse(error),
        };
        for mut vring in self.link.vrings() {
            vring.stop();
        }
        self.memory = memory;
        // Rings go on in the new regions if they are in them.
        for index in 0..2 * self.link.pairs() {
            self.start(index)?;
        }
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        if size == 0 || size > crate::virtio::SIZE_MAX.into() {
            return self.refuse(format!("virtqueue {index}: it cannot have {size} descriptors"));
        }
        self.change(index, |vring| vring.size = size)
    }

    fn set_vring_addr(
        &mut self, index: u32, flags: VhostUserVringAddrFlags, descriptors: u64, used: u64, available: u64,
        _log: u64,
    ) -> Result<()> {
        if flags.contains(VhostUserVringAddrFlags::VHOST_VRING_F_LOG) {
            return self.refuse(format!("virtqueue {index}: {LOG}"));
        }
        self.change(index, |vring| vring.addresses = Some([descriptors, available, used]))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.change(index, |vring| vring.base = base)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let Some(mut vring) = self.link.vring(index as usize) else { return self.no_such(index) };
        let base = vring.stop();
        // A machine that was stopped goes on with what was in the virtqueue, once that is enabled again.
        vring.was_enabled = vring.is_enabled;
        self.link.unset_kick(&mut vring);
        vring.call = None;
        drop(vring);
        self.link.changed();
        Ok(VhostUserVringState::new(index, base))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let kick = self.event(index, "kick", file)?;
        let Some(mut vring) = self.link.vring(index.into()) else { return self.no_such(index.into()) };
        let set = self.link.set_kick(index.into(), &mut vring, kick);
        drop(vring);
        match set {
            Ok(()) => self.start(index.into()),
            Err(error) => self.refuse(format!("virtqueue {index}: kick: {error}")),
        }
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = self.event(index, "call", file)?;
        // The driver may have missed a notification by the old event: a spurious one is better than none.
        if let Some(call) = &call {
            call.signal();
        }
        if let Some(mut vring) = self.link.vring(index.into()) {
            vring.call = call;
        }
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let error = self.event(index, "error", file)?;
        if let Some(mut vring) = self.link.vring(index.into()) {
            vring.error = error;
        }
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        // Without CONFIGURE_MEM_SLOTS: with it, QEMU 7.2 adds each region once per queue pair.
        Ok(VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        let offered = self.get_protocol_features()?.bits();
        if features & !offered != 0 {
            return self
                .refuse(format!("protocol features {:#x}, which were not offered", features & !offered));
        }
        self.protocol = VhostUserProtocolFeatures::from_bits_truncate(features);
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.link.pairs() as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let Some(mut vring) = self.link.vring(index as usize) else { return self.no_such(index) };
        vring.enable(enable);
        drop(vring);
        if !index.is_multiple_of(2)
            && let Some(mut other) = self.link.vring(index as usize - 1)
        {
            other.is_answer_enabled = enable;
        }
        self.start(index as usize)
    }

    refused! {
        get_config(_: u32, _: u32, _: VhostUserConfigFlags) -> Vec<u8>: "a device without configuration";
        set_config(_: u32, _: &[u8], _: VhostUserConfigFlags) -> (): "a device without configuration";
        set_gpu_socket(_: GpuBackend) -> (): "no graphics device";
        get_shared_object(_: VhostUserSharedMsg) -> File: "no shared objects";
        get_inflight_fd(_: &VhostUserInflight) -> (VhostUserInflight, File): AT_ONCE;
        set_inflight_fd(_: &VhostUserInflight, _: File) -> (): AT_ONCE;
        get_max_mem_slots() -> u64: SLOTS;
        add_mem_region(_: &VhostUserSingleMemoryRegion, _: File, _: Option<bool>)
            -> Option<VhostUserMemoryRegionBase>: SLOTS;
        remove_mem_region(_: &VhostUserSingleMemoryRegion) -> (): SLOTS;
        set_device_state_fd(_: VhostTransferStateDirection, _: VhostTransferStatePhase, _: File)
            -> Option<File>: STATELESS;
        check_device_state() -> (): STATELESS;
        get_shmem_config() -> VhostUserShMemConfig: "a device without memory of its own";
        set_log_base(_: &VhostUserLog, _: File) -> (): LOG;
    }
}

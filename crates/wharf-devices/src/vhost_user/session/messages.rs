//! The effect of each message of a connection.

use super::{Agreed, MAPPED_BYTES_MAX, NOTES_BYTES_MAX, PROTOCOL_FEATURES, Session};
use crate::virtio::{DirtyLog, InflightTable, Layout, MemoryRegion, feature};
use std::fs::File;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::*;
use vhost::vhost_user::{GpuBackend, Result, VhostUserBackendReqHandlerMut};
use wharf_sys::event::EventFd;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::View;

/// Messages of what the device does not offer, and the words for that.
macro_rules! refused {
    ($($name:ident($($any:tt: $of:ty),*) -> $what:ty: $words:expr;)*) => {
        $(fn $name(&mut self, $($any: $of),*) -> Result<$what> {
            self.refuse($words)
        })*
    };
}

/// Most regions of memory.
const SLOTS_MAX: usize = 509;
const STATELESS: &str = "a device without state to be moved";

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.link.reset();
        (self.agreed, self.has_agreed) = (Agreed(0), false);
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
        if std::mem::replace(&mut self.has_agreed, true) && agreed == self.agreed {
            return Ok(());
        }
        self.agreed = agreed;
        self.link.note_features(features);
        self.remember(self.memory.regions().to_vec())?;
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
        self.slots = announced.iter().copied().zip(regions?).map(|(at, region)| (at, region, 1)).collect();
        self.remember_slots().map(|()| None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        if size == 0 || size > crate::virtio::SIZE_MAX.into() {
            return self.refuse(format!("virtqueue {index}: it cannot have {size} descriptors"));
        }
        self.change(index, |vring| vring.size = size)
    }

    fn set_vring_addr(
        &mut self, index: u32, _flags: VhostUserVringAddrFlags, descriptors: u64, used: u64, available: u64,
        _log: u64,
    ) -> Result<()> {
        // The address for the log is that of the used ring, which is known.
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
        if let Some(mut vring) = self.link.vring(index.into()) {
            vring.call = call;
            // Turns before this one used the old event, which the driver may not have read: a spurious
            // notification is better than none.
            vring.call.iter().for_each(EventFd::signal);
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
        Ok(PROTOCOL_FEATURES)
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

    fn get_inflight_fd(&mut self, asked: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let [queues, size] = self.tables(asked)?;
        // Enough for either layout, if features are agreed upon later.
        let len_bytes = queues * InflightTable::len_bytes(Layout::Packed, size as u16);
        let file =
            Mapping::shared_small_pages(len_bytes).and_then(|tables| tables.fd()?.try_clone_to_owned());
        match file {
            Ok(file) => {
                Ok((VhostUserInflight { mmap_size: len_bytes as u64, mmap_offset: 0, ..*asked }, file.into()))
            }
            Err(error) => self.refuse(format!("no memory for what is in flight: {error}")),
        }
    }

    fn set_inflight_fd(&mut self, tables: &VhostUserInflight, file: File) -> Result<()> {
        let VhostUserInflight { mmap_size, mmap_offset, .. } = *tables;
        let [queues, size] = self.tables(tables)?;
        let each_bytes = InflightTable::len_bytes(self.agreed.layout(), size as u16);
        let end = mmap_offset.saturating_add(mmap_size);
        let area = self.map_file("the table of what is in flight", end, NOTES_BYTES_MAX, &file)?;
        for index in 0..queues {
            let at = mmap_offset as usize + index * each_bytes;
            let is_within = ((index + 1) * each_bytes) as u64 <= mmap_size;
            let Some(view) = View::new(&area, at, each_bytes).filter(|_| is_within) else {
                return self.refuse(format!(
                    "{mmap_size} bytes for what is in flight in {queues} virtqueues of {size}"
                ));
            };
            self.change(index as u32, |vring| vring.inflight = Some(view))?;
        }
        Ok(())
    }

    fn set_log_base(&mut self, log: &VhostUserLog, file: File) -> Result<()> {
        let end = log.mmap_offset.saturating_add(log.mmap_size);
        let area = self.map_file("the log of pages", end, NOTES_BYTES_MAX, &file)?;
        let view = View::new(&area, log.mmap_offset as usize, log.mmap_size as usize);
        self.log = view.and_then(DirtyLog::new);
        if self.log.is_none() {
            return self.refuse("the log of pages is not aligned");
        }
        self.remember(self.memory.regions().to_vec())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(SLOTS_MAX as u64)
    }

    /// QEMU 7.2 adds each region once per queue pair.
    fn add_mem_region(
        &mut self, announced: &VhostUserSingleMemoryRegion, file: File, _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        if let Some(slot) = self.slots.iter_mut().find(|slot| is_same(&slot.0, announced)) {
            slot.2 += 1;
            return Ok(None);
        }
        let others = self.slots.iter().map(|slot| slot.0.mmap_offset.saturating_add(slot.0.memory_size));
        let end = announced.mmap_offset.saturating_add(announced.memory_size);
        if self.slots.len() >= SLOTS_MAX || others.fold(end, u64::saturating_add) > MAPPED_BYTES_MAX {
            return self.refuse(format!(
                "more than {SLOTS_MAX} regions, or {MAPPED_BYTES_MAX} bytes, of shared memory"
            ));
        }
        let region = self.map(announced, &file)?;
        self.slots.push((**announced, region, 1));
        self.remember_slots().map(|()| None)
    }

    fn remove_mem_region(&mut self, announced: &VhostUserSingleMemoryRegion) -> Result<()> {
        let Some(at) = self.slots.iter().position(|slot| is_same(&slot.0, announced)) else {
            return self.refuse(format!("no region at {:#x}", { announced.guest_phys_addr }));
        };
        self.slots[at].2 -= 1;
        if self.slots[at].2 > 0 {
            return Ok(());
        }
        self.slots.remove(at);
        self.rests = true;
        self.remember_slots()
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let config = self.config();
        let end = offset.saturating_add(size) as usize;
        match config.get(offset as usize..end) {
            Some(part) => Ok(part.to_vec()),
            None => self.refuse(format!("{size} bytes at {offset} of a configuration of {}", config.len())),
        }
    }

    refused! {
        set_config(_: u32, _: &[u8], _: VhostUserConfigFlags) -> (): "the driver cannot write the configuration";
        set_gpu_socket(_: GpuBackend) -> (): "no graphics device";
        get_shared_object(_: VhostUserSharedMsg) -> File: "no shared objects";
        set_device_state_fd(_: VhostTransferStateDirection, _: VhostTransferStatePhase, _: File)
            -> Option<File>: STATELESS;
        check_device_state() -> (): STATELESS;
        get_shmem_config() -> VhostUserShMemConfig: "a device without memory of its own";
    }
}

/// True if both name the same addresses.
fn is_same(one: &VhostUserMemoryRegion, other: &VhostUserMemoryRegion) -> bool {
    let key = |region: &VhostUserMemoryRegion| (region.guest_phys_addr, region.memory_size, region.user_addr);
    key(one) == key(other)
}

#[cfg(test)]
mod tests {
    use super::super::super::link::Link;
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_new_call_event_is_signalled_after_the_turn_that_may_use_the_old_one() {
        let link = Arc::new(Link::new("test".into(), 1, None).unwrap());
        let mut session = Session::new(link.clone(), 0);
        let call = EventFd::new().unwrap();
        let file = File::from(call.as_fd().try_clone_to_owned().unwrap());
        let turn = link.vring(0).unwrap();
        let message = std::thread::spawn(move || session.set_vring_call(0, Some(file)).unwrap());
        let is_early = (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            call.clear()
        });
        drop(turn);
        message.join().unwrap();
        assert!(!is_early && call.clear());
    }
}

//! `Ring`: descriptors in memory that the adapter reads and writes.

use super::bus::Bus;
use super::family::RingRegisters;
use std::io;
use std::sync::Arc;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, Record, Table, View};

/// A ring of descriptors. Positions run on past 2^32; the place of one is its position modulo the ring.
#[derive(Debug)]
pub(super) struct Ring {
    table: Table<Record>,
    size: u32,
    tail_register: u32,
}

impl Ring {
    /// Makes a ring of `size` descriptors, a power of two, and writes its place into `registers`: with a head and a
    /// tail of 0 it is empty.
    ///
    /// # Errors
    /// Those of mapping memory.
    pub(super) fn new(bus: &impl Bus, registers: RingRegisters, size: u32) -> io::Result<Self> {
        let len_bytes = size as usize * Record::BYTES;
        let mapping = Mapping::shared_small_pages(len_bytes)?;
        let address = bus.map(&mapping, true)?;
        let area = Arc::new(Area::new(mapping));
        let view = View::new(&area, 0, len_bytes).and_then(Table::new);
        let table = view.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        bus.write(registers.base, address as u32);
        bus.write(registers.base + 4, (address >> 32) as u32);
        bus.write(registers.base + 8, len_bytes as u32);
        bus.write(registers.head, 0);
        bus.write(registers.tail, 0);
        Ok(Self { table, size, tail_register: registers.tail })
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Returns the place of a position.
    #[inline(always)]
    pub(super) fn place(&self, position: u32) -> u32 {
        position & (self.size - 1)
    }

    #[inline(always)]
    fn record(&self, position: u32) -> &Record {
        &self.table.all()[self.place(position) as usize]
    }

    /// Writes a descriptor that the adapter does not have.
    #[inline(always)]
    pub(super) fn put(&self, position: u32, [first, second]: [u64; 2]) {
        let record = self.record(position);
        record.store_first(first.to_le());
        record.store_second(second.to_le());
    }

    /// Gives the adapter the descriptors before `end`: writes the tail register.
    #[inline(always)]
    pub(super) fn publish(&self, bus: &impl Bus, end: u32) {
        bus.write(self.tail_register, self.place(end));
    }

    /// Reads the second word of a descriptor, once: what the adapter wrote before it is visible afterwards.
    #[inline(always)]
    pub(super) fn second(&self, position: u32) -> u64 {
        u64::from_le(self.record(position).load_second_acquire())
    }

    /// Writes the second word of a descriptor that the adapter does not have.
    #[inline(always)]
    pub(super) fn set_second(&self, position: u32, second: u64) {
        self.record(position).store_second(second.to_le());
    }
}

//! A NIC of descriptors without a bus: driver and hardware in turn.

use wharf_core::device::{Completions, Device, TxDevice};
use wharf_core::pool::PagePool;
use wharf_mem::Batch;
use wharf_sim::nic::simple::{Costs, Driver, Simple, TxMemory};

const COSTS: Costs = Costs {
    doorbell_ps: 78_125,
    fetch_ns: 500,
    write_back_ns: 200,
    wire_ps_per_byte: 800,
    written_back_together: false,
};

#[test]
fn frames_leave_at_wire_rate_and_come_back_when_written_back() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let mut cache = pool.cache("test").unwrap();
    let memory = TxMemory::new(4);
    let mut driver = Driver::new(memory.clone());
    driver.attach(pool.region().clone()).unwrap();
    let mut nic = Simple::new(COSTS, vec![memory], 2048);
    let mut batch = Batch::new(8);
    cache.take(&mut batch, 4, 60).unwrap();
    let indices: Vec<u32> = batch.frames().iter().map(|frame| frame.index()).collect();
    let done = driver.transmit(&mut batch, false);
    assert!(done.doorbell && done.stopped && batch.len() == 1, "three descriptors of four");
    let mut departed = Vec::new();
    nic.doorbell(0, 1000, &mut departed);
    // 1000 + 78.125 + 500 + n * 84 * 0.8
    let wanted: Vec<_> = indices.iter().zip([1645, 1712, 1779]).collect();
    assert_eq!(departed.iter().map(|frame| (&frame.index, frame.at_ns)).collect::<Vec<_>>(), wanted);
    let mut back = Completions::new(8);
    for (now_ns, count) in [(1844, 0), (1845, 1), (1911, 1), (1979, 3)] {
        nic.write_back(0, now_ns);
        driver.reap(8, false, &mut back).unwrap();
        assert_eq!(back.sent.len(), count, "{now_ns}");
    }
    assert_eq!((nic.next_write_back_ns(0), driver.outstanding()), (None, 0));
    cache.give(&mut back.sent).unwrap();
    cache.give(&mut batch).unwrap();
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn doorbells_of_all_queues_wait_for_each_other() {
    let pool = PagePool::builder().frames(16).huge_pages(false).build().unwrap();
    let mut cache = pool.cache("test").unwrap();
    let memories = vec![TxMemory::new(4), TxMemory::new(4)];
    let mut drivers: Vec<Driver> = memories.iter().cloned().map(Driver::new).collect();
    let mut nic = Simple::new(Costs { wire_ps_per_byte: 0, ..COSTS }, memories, 2048);
    let mut departed = Vec::new();
    for (queue, driver) in drivers.iter_mut().enumerate() {
        driver.attach(pool.region().clone()).unwrap();
        let mut batch = Batch::new(1);
        cache.take(&mut batch, 1, 60).unwrap();
        driver.transmit(&mut batch, false);
        nic.doorbell(queue, 0, &mut departed);
    }
    assert_eq!(departed.iter().map(|frame| frame.at_ns).collect::<Vec<_>>(), [578, 656]);
}

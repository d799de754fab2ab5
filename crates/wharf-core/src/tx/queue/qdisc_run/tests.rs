use super::*;
use crate::device::{Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo};
use crate::host::{NoClock, Park, Wake};
use crate::pool::PagePool;
use crate::tx::queue::TxQueue;
use std::sync::Arc;
use wharf_mem::{Batch, Frame, Published, Region};

/// A way to wait that never waits.
#[derive(Debug)]
struct NoPark;

impl Wake for NoPark {
    fn wake(&self) {}
}

impl Park for NoPark {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(Self)
    }

    fn park(&self, _timeout_ns: u64) {}
}

/// A device that takes nothing.
struct Idle;

impl Notify for Idle {}

impl Device for Idle {
    fn name(&self) -> String {
        "idle".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, _see: &mut dyn FnMut(&Frame)) {}
}

impl TxDevice for Idle {
    fn info(&self) -> TxInfo {
        TxInfo::default()
    }

    fn transmit(&mut self, _batch: &mut Batch, _more: bool) -> Transmitted {
        Transmitted { doorbell: false, stopped: true }
    }

    fn flush(&mut self) -> bool {
        false
    }

    fn reap(&mut self, _budget: usize, _urgent: bool, _into: &mut Completions) -> Result<(), DeviceError> {
        Ok(())
    }

    fn outstanding(&self) -> usize {
        0
    }
}

/// Returns the quota of a sender that should drain three packets, in a queue prepared by `set`.
fn quota_packets(set: impl FnOnce(&mut QueueState)) -> u32 {
    let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
    let builder = TxQueue::builder(&pool, Box::new(Idle), Arc::new(NoClock), Arc::new(NoPark));
    let queue = builder.policy(Policy::quota(50)).build().unwrap();
    let Published::Owner(mut owned) = queue.shared.cell().claim(0) else { panic!("the queue has no owner") };
    owned.with(set);
    let mut run = QdiscRun::for_sender(&queue.shared, owned, 0, 3, 0);
    let quota_packets = run.owner.quota_left();
    run.finish();
    quota_packets
}

#[test]
fn sender_with_part_drained_keeps_full_quota_only_if_no_other_can_send() {
    assert_eq!(quota_packets(|_| ()), 3);
    assert_eq!(quota_packets(|state| state.waiting = true), 50, "they sleep until it drains");
    assert_eq!(quota_packets(|state| state.poller = PollerState::Awake), 50, "it comes after a whole quota");
}

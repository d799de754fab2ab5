//! Memory that a device has for arrivals from the moment that a receiver of a path is made.

use std::sync::{Arc, Mutex};
use std::thread;
use wharf::device::{
    AnyDevice, Batch, Cache, Device, DeviceError, Kind, Notify, Opened, Registry, RxDevice, TxDevice,
    delegate,
};
use wharf::queue::Rest;
use wharf::{Direction, Port, net};
use wharf_devices::null::Null;

/// A device that notes the calls to receive, each with its thread and its budget. It has nothing to receive.
struct Posted {
    null: Null,
    calls: Calls,
}

type Calls = Arc<Mutex<Vec<(thread::ThreadId, usize)>>>;

impl Notify for Posted {}

impl Device for Posted {
    delegate!(null: name, attach, visit, close);
}

impl TxDevice for Posted {
    delegate!(null: info, transmit, reap, outstanding, set_patience);
}

impl RxDevice for Posted {
    fn receive(&mut self, _: &mut Cache, _: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        self.calls.lock().unwrap().push((thread::current().id(), budget));
        Ok(0)
    }
}

/// The calls to the device opened last.
static CALLS: Mutex<Option<Calls>> = Mutex::new(None);
static POSTED: Kind = Kind::new("posted", "posted", "a device of the test's own", |_, opening| {
    let device = Posted { null: Null::default(), calls: Calls::default() };
    *CALLS.lock().unwrap() = Some(device.calls.clone());
    let device = match opening.direction {
        Direction::Receive => AnyDevice::rx(device),
        _ => AnyDevice::duplex(device),
    };
    Ok(vec![Opened::new(device)])
})
.both_ways();

#[test]
fn a_device_has_memory_when_its_receiver_is_made() {
    let registry = Registry::default().with(&POSTED).unwrap();
    for direction in [Direction::Receive, Direction::Both] {
        let makes: [fn(&Port); 4] = [
            |path| drop(path.receiver().unwrap()),
            |path| drop(path.served_receiver().unwrap()),
            |path| drop(path.receivers(3, net::flow_hash).unwrap()),
            |path| drop(path.on_receive(|_| Rest::Free).unwrap()),
        ];
        for (make, receive) in makes.iter().enumerate() {
            let path = Port::builder("posted", direction).registry(registry.clone()).build().unwrap();
            let calls = CALLS.lock().unwrap().take().unwrap();
            receive(&path);
            let first = calls.lock().unwrap().first().copied();
            assert_eq!(first, Some((thread::current().id(), 0)), "{direction:?}: {make}");
        }
    }
}

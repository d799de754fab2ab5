//! The list of devices: its functions, as the library's binary interface has them.

use super::super::abi::IbvDevice;
use super::{FakeDevice, devices};
use libc::{c_char, c_int};
use std::ptr::null_mut;

pub(super) unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut IbvDevice {
    let mut list: Vec<*mut IbvDevice> =
        devices().iter().map(|device| Box::into_raw(Box::new(listed(device)))).collect();
    list.push(null_mut());
    // SAFETY: the caller's number.
    unsafe { *count = list.len() as c_int - 1 };
    Box::into_raw(list.into_boxed_slice()).cast()
}

pub(super) fn listed(device: &FakeDevice) -> IbvDevice {
    let (ops, empty, long) = ([null_mut(); 2], [0; 64], [0; 256]);
    IbvDevice {
        ops,
        node_type: 1,
        transport_type: 0,
        name: device.0.name,
        dev_name: empty,
        dev_path: long,
        ibdev_path: long,
    }
}

pub(super) unsafe extern "C" fn free_device_list(list: *mut *mut IbvDevice) {
    // SAFETY: a list of `get_device_list`, which ends with null, and is freed once.
    unsafe {
        let mut count = 0;
        while !(*list.add(count)).is_null() {
            drop(Box::from_raw(*list.add(count)));
            count += 1;
        }
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, count + 1)));
    }
}

pub(super) unsafe extern "C" fn get_device_name(device: *mut IbvDevice) -> *const c_char {
    // SAFETY: a device of a list.
    unsafe { (&raw const (*device).name).cast() }
}

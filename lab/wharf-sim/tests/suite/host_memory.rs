//! The host's memory, as driver and NIC see it.

use wharf_sim::nic::host_memory::HostMemory;
use wharf_sim::nic::simple::Descriptor;

#[test]
fn access_beyond_allocations_is_an_error() {
    let mut memory = HostMemory::default();
    let (first, second) = (memory.allocate(100), memory.allocate(64));
    assert_eq!((first, second), (0x1000, 0x2000));
    memory.write(second, &[1; 64]).unwrap();
    assert_eq!(memory.read::<2>(second + 62).unwrap(), [1, 1]);
    for (address, len_bytes) in [(0, 1), (first - 1, 2), (second + 60, 5), (u64::MAX, 1), (second + 64, 1)] {
        assert!(memory.bytes(address, len_bytes).is_err(), "{address:#x}");
        assert!(memory.write(address, &vec![2; len_bytes]).is_err(), "{address:#x}");
    }
    assert!(memory.bytes(second, usize::MAX).is_err());
    assert_eq!(
        memory.read::<1>(0).unwrap_err().to_string(),
        "no host memory at 0x0, 1 bytes: there are 4160 from 0x1000"
    );
}

#[test]
fn a_descriptor_is_laid_out_as_the_data_sheet_says() {
    let written = Descriptor::data(0x1122_3344_5566_7788, 1514);
    let wanted =
        [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xea, 0x05, 0x30, 0x2b, 0, 0x80, 0x7a, 0x01];
    assert_eq!(written.0, wanted);
    assert_eq!((written.address(), written.len_bytes()), (0x1122_3344_5566_7788, 1514));
    assert!(!written.is_done() && Descriptor::done().is_done());
}

use wharf_mem::{Frame, Region};

fn attempt(region: Region, frame: &Frame) -> u8 {
    let bytes = region.bytes(frame).unwrap();
    drop(region);
    bytes[0]
}

fn main() {}

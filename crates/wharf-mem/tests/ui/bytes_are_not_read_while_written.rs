use wharf_mem::{Frame, Region};

fn attempt(region: &Region, frame: &mut Frame) {
    let written = region.bytes_mut(frame).unwrap();
    let read = region.bytes(frame).unwrap();
    written[0] = read[0];
}

fn main() {}

use wharf_mem::{Frame, Region};

fn attempt(region: &Region, frame: &mut Frame) {
    let first = region.bytes_mut(frame).unwrap();
    let second = region.bytes_mut(frame).unwrap();
    first[0] = second[0];
}

fn main() {}

use wharf_mem::{Frame, FreeFrame, Region};

fn attempt(region: &Region, frame: Frame, free: &mut Vec<FreeFrame>) -> u8 {
    let bytes = region.bytes(&frame).unwrap();
    region.give_one(frame, free).unwrap();
    bytes[0]
}

fn main() {}

use wharf_mem::{Frame, Region};

fn attempt(region: &Region, head: &mut Frame, other: &mut Frame, piece: Frame) {
    region.link(head, piece).unwrap();
    region.link(other, piece).unwrap();
}

fn main() {}

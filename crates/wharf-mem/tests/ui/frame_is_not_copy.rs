fn attempt(frame: wharf_mem::Frame) -> [wharf_mem::Frame; 2] {
    [frame, frame]
}

fn main() {}

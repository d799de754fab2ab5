fn two<T: Clone>(_: T) {}

fn attempt(frame: wharf_mem::Frame) {
    two(frame);
}

fn main() {}

fn two<T: Clone>(_: T) {}

fn attempt(lane: wharf_mem::lane::LaneIn) {
    two(lane);
}

fn main() {}

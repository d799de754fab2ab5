fn two<T: Clone>(_: T) {}

fn attempt(lane: wharf_mem::lane::LaneProducer) {
    two(lane);
}

fn main() {}

fn two<T: Clone>(_: T) {}

fn attempt(free: wharf_mem::FreeFrame) {
    two(free);
}

fn main() {}

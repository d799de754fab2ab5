fn attempt(free: wharf_mem::FreeFrame) -> [wharf_mem::FreeFrame; 2] {
    [free, free]
}

fn main() {}

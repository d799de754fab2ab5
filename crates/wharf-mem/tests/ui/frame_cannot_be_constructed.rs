fn main() {
    let _ = wharf_mem::Frame { 0: 1 };
}

fn main() {
    let _ = wharf_mem::FreeFrame { 0: 1 };
}

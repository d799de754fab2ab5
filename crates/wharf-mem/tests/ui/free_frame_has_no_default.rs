fn main() {
    let _: wharf_mem::FreeFrame = Default::default();
}

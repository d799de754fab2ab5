//! Code that must not compile: a second name for a buffer, or a reference to its bytes that outlives the
//! name.
//!
//! Each file in `tests/ui` makes one attempt. Compilers word their errors differently. After a change of
//! compiler, review the changes that `TRYBUILD=overwrite cargo test -p wharf-mem --test
//! frame_cannot_be_forged` makes.
#![cfg(not(loom))]

#[test]
fn frame_cannot_be_forged() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

//! The guides and the README: `cargo test` compiles and runs their Rust programs as a user's crate would, with `wharf` as the only
//! dependency.
#![forbid(unsafe_code)]

#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../../docs/adding-a-device.md")]
    mod adding_a_device {}
    #[doc = include_str!("../../../docs/adding-a-qdisc.md")]
    mod adding_a_qdisc {}
    #[doc = include_str!("../../../docs/library/gso.md")]
    mod gso {}
    #[doc = include_str!("../../../docs/library/headers-and-answers.md")]
    mod headers_and_answers {}
    #[doc = include_str!("../../../docs/library/pacing.md")]
    mod pacing {}
    #[doc = include_str!("../../../docs/library/what-fits-a-frame.md")]
    mod what_fits_a_frame {}
    #[doc = include_str!("../../../README.md")]
    mod readme {}
}

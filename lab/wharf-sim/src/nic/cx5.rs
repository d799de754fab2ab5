//! `cx5`: Mellanox ConnectX-5 as its driver mlx5 sees it.
//!
//! Sending: entries of 64-byte blocks made of 16-byte segments, one packet each or, with `xdp_tx_mpwqe` and
//! `skb_tx_mpwqe`, up to 58 (`segment`, `write` for the driver, `parse` for the NIC). Receiving: completions
//! of 64 bytes or, with `rx_cqe_compress`, sessions of a title and mini completions of 8 bytes (`completion`,
//! `compress` for the NIC, `expand` for the driver). `half` posts a buffer for each packet, `striding` one
//! for many. `slim` is a variant with entries of 16 bytes.

pub mod completion;
pub mod compress;
pub mod driver;
pub mod expand;
pub mod formats;
pub mod half;
pub mod parse;
pub mod segment;
pub mod send_half;
pub mod setup;
pub mod slim;
pub mod striding;
pub mod write;

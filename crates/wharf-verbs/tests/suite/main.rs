//! `verbs` on a libibverbs of the test's own, which tells the truth in `sending` and `receiving`, and lies in `lies`.

mod lies;
mod receiving;
mod rig;
mod sending;

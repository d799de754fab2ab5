use wharf_mem::{OwnerCell, Published};

fn attempt(cell: &OwnerCell<Vec<u8>>) -> &mut Vec<u8> {
    match cell.claim(0) {
        Published::Owner(mut owner) => owner.with(|inside| inside),
        _ => unreachable!(),
    }
}

fn main() {}

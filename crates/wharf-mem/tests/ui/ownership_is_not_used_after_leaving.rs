use wharf_mem::Ownership;

fn attempt(mut owner: Ownership<u8>) {
    let _ = owner.leave();
    owner.with(|inside| *inside = 1);
}

fn main() {}

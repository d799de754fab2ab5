use wharf::PagePool;

fn main() {
    let pools = [(); 2].map(|()| PagePool::builder().build().unwrap());
    let [mut one, mut other] = pools.map(|pool| pool.burst(1));
    std::mem::swap(&mut one.frames_mut()[0], &mut other.frames_mut()[0]);
    std::mem::swap(one.batch_mut(), other.batch_mut());
}

use crate::executor::Executor;

const CHILDREN: u64 = 10;

/// The sum of all leaves' numbers, `depth` levels below the root.
pub(crate) fn run<E: Executor>(depth: u32) -> u64 {
    below::<E>(0, CHILDREN.pow(depth))
}

fn below<E: Executor>(first: u64, leaves: u64) -> u64 {
    if leaves == 1 {
        return first;
    }
    let part = leaves / CHILDREN;
    let mut sums: [u64; CHILDREN as usize] = std::array::from_fn(|nth| first + nth as u64 * part);
    E::join_each(&mut sums, |sum| *sum = below::<E>(*sum, part));
    sums.iter().sum()
}

pub(crate) fn check(depth: u32, given: u64) -> Result<(), String> {
    let leaves = CHILDREN.pow(depth);
    super::equal("skynet", given, leaves * (leaves - 1) / 2)
}

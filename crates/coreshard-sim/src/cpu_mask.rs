//! Sets of CPUs: one bit for each CPU, by its position in the machine's list.

/// Returns the number of words of a set of `cpus` CPUs.
pub(crate) const fn words(cpus: usize) -> usize {
    cpus.div_ceil(64)
}

#[inline]
pub(crate) fn has(words: &[u64], cpu: usize) -> bool {
    words[cpu / 64] & (1 << (cpu % 64)) != 0
}

#[inline]
pub(crate) fn insert(words: &mut [u64], cpu: usize) {
    words[cpu / 64] |= 1 << (cpu % 64);
}

/// A set of CPUs of one machine. Sets of different machines must not be mixed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuMask(Box<[u64]>);

impl CpuMask {
    /// Returns the CPUs, out of a machine's `cpus` CPUs, that `member` accepts.
    pub(crate) fn of(cpus: usize, member: impl Fn(usize) -> bool) -> Self {
        let mut mask = Self(vec![0; words(cpus)].into());
        (0..cpus).filter(|cpu| member(*cpu)).for_each(|cpu| mask.insert(cpu));
        mask
    }

    pub(crate) const fn words(&self) -> &[u64] {
        &self.0
    }

    pub(crate) fn has(&self, cpu: usize) -> bool {
        has(&self.0, cpu)
    }

    pub(crate) fn insert(&mut self, cpu: usize) {
        insert(&mut self.0, cpu);
    }

    pub(crate) fn remove(&mut self, cpu: usize) {
        self.0[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// Adds the members of another set. The default set, which belongs to no machine, becomes a copy of it.
    pub(crate) fn add_all(&mut self, others: &Self) {
        if self.0.is_empty() {
            *self = others.clone();
        }
        self.0.iter_mut().zip(&others.0).for_each(|(own, other)| *own |= other);
    }

    pub(crate) fn without(&self, others: &Self) -> Self {
        Self(self.0.iter().zip(&others.0).map(|(own, other)| own & !other).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the members, the lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            std::iter::successors(Some(*word), |word| Some(word & word.wrapping_sub(1)))
                .take_while(|word| *word != 0)
                .map(move |word| 64 * at + word.trailing_zeros() as usize)
        })
    }

    /// Returns the number of CPUs in the intersection of `sets`.
    pub(crate) fn len_of_common(sets: &[&Self]) -> u64 {
        (0..sets[0].0.len()).map(|at| u64::from(common_word(sets, at).count_ones())).sum()
    }

    /// Returns the first CPU in the intersection of `sets`, from `from` on and wrapping around.
    pub(crate) fn first_common(from: usize, sets: &[&Self]) -> Option<usize> {
        let words = sets[0].0.len();
        let (start, low) = (from / 64, (1_u64 << (from % 64)) - 1);
        let found = |at: usize, mask: u64| {
            let bits = common_word(sets, at) & mask;
            (bits != 0).then(|| at * 64 + bits.trailing_zeros() as usize)
        };
        found(start, !low)
            .or_else(|| {
                (1..words).map(|step| (start + step) % words).find_map(|at| found(at, u64::MAX))
            })
            .or_else(|| found(start, low))
    }
}

fn common_word(sets: &[&CpuMask], at: usize) -> u64 {
    sets.iter().fold(u64::MAX, |common, set| common & set.0[at])
}

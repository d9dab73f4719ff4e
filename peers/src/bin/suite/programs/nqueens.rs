use crate::executor::Executor;

const QUEENS: usize = 14;
const PLACES: u32 = 365_596;

/// The rows of the queens in the columns so far.
type Rows = [i8; QUEENS];

pub(crate) fn run<E: Executor>() -> u32 {
    from_column::<E>(0, Rows::default())
}

fn from_column<E: Executor>(column: usize, rows: Rows) -> u32 {
    if column == QUEENS {
        return 1;
    }
    // Each with its number of places afterwards.
    let mut next = [(0, 0); QUEENS];
    let mut count = 0;
    for row in 0..QUEENS as i8 {
        let is_free = rows[..column].iter().zip(0_i8..).all(|(&other, at)| {
            let apart = column as i8 - at;
            row != other && row != other - apart && row != other + apart
        });
        if is_free {
            next[count].0 = row;
            count += 1;
        }
    }
    let next = &mut next[..count];
    E::join_each(next, |(row, places)| {
        let mut rows = rows;
        rows[column] = *row;
        *places = from_column::<E>(column + 1, rows);
    });
    next.iter().map(|&(_, places)| places).sum()
}

pub(crate) fn check(given: u32) -> Result<(), String> {
    super::equal("nqueens", given, PLACES)
}

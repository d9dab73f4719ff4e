//! `indexes=`: the numbers of the objects of a level.

use super::level::{Level, Machine, Type};
use crate::input::quoted;
use crate::{MAX_CPU, TopologyError};

/// As many loops as levels.
const MAX_LOOPS: usize = 128;

/// One loop of an interleaving. The number grows by one after every `step` objects, and restarts after `count` of them.
struct Loop {
    step: usize,
    count: usize,
}

/// Returns the numbers of `total` objects, as `indexes=` says, or in order.
pub(super) fn numbers(
    machine: &Machine,
    indexes: Option<&(String, usize)>,
    total: usize,
) -> Result<Vec<u32>, TopologyError> {
    let Some((text, at)) = indexes else {
        return Ok((0..).take(total).collect());
    };
    let reader = IndexReader { machine, text, at: *at, total };
    let numbers = if text.bytes().all(|b| b.is_ascii_digit() || b == b',') {
        reader.list()?
    } else if text.starts_with(|c: char| c.is_ascii_digit()) {
        reader.interleave(reader.explicit_loops()?)?
    } else {
        reader.interleave(reader.loops_of_types()?)?
    };
    reader.refuse_repeats(&numbers)?;
    Ok(numbers)
}

struct IndexReader<'a> {
    machine: &'a Machine,
    text: &'a str,
    at: usize,
    /// The number of objects that need a number.
    total: usize,
}

impl<'a> IndexReader<'a> {
    /// `0,2,1,3`
    fn list(&self) -> Result<Vec<u32>, TopologyError> {
        let mut numbers = Vec::new();
        for (item, at) in self.parts(',') {
            let number = item.parse::<u32>().ok().filter(|number| *number <= MAX_CPU.0);
            let problem = || self.fail(at, format!("expected a number up to {MAX_CPU}"));
            numbers.push(number.ok_or_else(problem)?);
        }
        if numbers.len() != self.total {
            let problem = format!("expected {1} indexes, found {0}", numbers.len(), self.total);
            return Err(self.fail(self.at, problem));
        }
        Ok(numbers)
    }

    /// `STEP*COUNT:STEP*COUNT`
    fn explicit_loops(&self) -> Result<Vec<Loop>, TopologyError> {
        let mut loops = Vec::new();
        for (item, at) in self.parts(':') {
            if loops.len() == MAX_LOOPS {
                return Err(self.fail(at, format!("expected at most {MAX_LOOPS} loops")));
            }
            let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
            let pair = item.split_once('*').and_then(|(a, b)| Some((number(a)?, number(b)?)));
            let (step, count) = pair
                .ok_or_else(|| self.fail(at, "expected STEP*COUNT, two numbers of at least 1"))?;
            loops.push(Loop { step, count });
        }
        Ok(loops)
    }

    /// `TYPE:TYPE`
    fn loops_of_types(&self) -> Result<Vec<Loop>, TopologyError> {
        let mut levels: Vec<(usize, &Level)> = Vec::new();
        for (item, at) in self.parts(':') {
            let kind = Type::named(item)
                .ok_or_else(|| self.fail(at, format!("unknown level type {}", quoted(item))))?;
            if kind == Type::Pu {
                return Err(self.fail(at, "unexpected pu: it is always the innermost loop"));
            }
            let depth = self.machine.levels.iter().position(|level| level.kind == kind);
            let depth = depth.ok_or_else(|| self.fail(at, format!("there is no {kind} level")))?;
            let level = &self.machine.levels[depth];
            if levels.iter().any(|(known, _)| *known == depth) {
                return Err(self.fail(at, format!("{kind} is named twice")));
            }
            if level.width > self.total {
                return Err(self.fail(at, format!("{kind} lies below the level that is numbered")));
            }
            levels.push((depth, level));
        }
        let loop_of = |(depth, level): &(usize, &Level)| {
            let outer = levels.iter().filter(|(other, _)| other < depth).max_by_key(|(d, _)| *d);
            let outer_width = outer.map_or(1, |(_, outer)| outer.width);
            Loop { step: self.total / level.width, count: level.width / outer_width }
        };
        Ok(levels.iter().map(loop_of).collect())
    }

    fn interleave(&self, mut loops: Vec<Loop>) -> Result<Vec<u32>, TopologyError> {
        let wrong =
            || self.fail(self.at, format!("these loops do not number {} objects", self.total));
        let covered = loops.iter().try_fold(1_usize, |all, one| all.checked_mul(one.count));
        let covered =
            covered.filter(|covered| self.total.is_multiple_of(*covered)).ok_or_else(wrong)?;
        let left = self.total / covered;
        if left > 1 {
            // The innermost loop may be omitted.
            if loops.iter().map(|one| one.step).min() != Some(left) {
                return Err(wrong());
            }
            loops.push(Loop { step: 1, count: left });
        }
        let number = |object: usize| {
            let mut number = 0;
            let mut weight = 1;
            for one in &loops {
                number += object / one.step % one.count * weight;
                weight *= one.count;
            }
            u32::try_from(number).ok().filter(|number| *number <= MAX_CPU.0)
        };
        (0..self.total).map(|object| number(object).ok_or_else(wrong)).collect()
    }

    fn refuse_repeats(&self, numbers: &[u32]) -> Result<(), TopologyError> {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(self.fail(self.at, format!("index {} is given twice", pair[0]))),
            None => Ok(()),
        }
    }

    /// Returns the parts of the text, each with its position in the description.
    fn parts(&self, separator: char) -> impl Iterator<Item = (&'a str, usize)> + use<'a> {
        let start = self.at;
        let text = self.text;
        text.split(separator)
            .map(move |part| (part, start + (part.as_ptr() as usize - text.as_ptr() as usize)))
    }

    fn fail(&self, at: usize, problem: impl std::fmt::Display) -> TopologyError {
        let problem = format!("indexes=: {problem}");
        TopologyError::synthetic(&self.machine.text, at, problem)
    }
}

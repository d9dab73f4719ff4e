//! Guesses the type of an allocation from the code that made it and the code that uses it.
//!
//! If a function allocates N bytes and has a variable that points to a type of N bytes, or of a divisor of N, the
//! memory has that type. The nearest such function on the call stack counts. In Rust and C++, the type may also be the
//! parameter of a generic function, such as `Box<T>::new`. If no caller has such a variable, the parameters of the
//! functions that access the memory are used.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::{Guess, Named, Names, Seen, Thing, ThingKind, is_program};
use crate::replay::pieces::Piece;
use crate::replay::plan::{Allocation, Label};
use crate::types::{Shape, SourcePlace, TypeId, TypeTable};

/// Calls of a stack that are examined.
const MOST_CALLS: usize = 8;
/// Memory that is to begin a line is rounded up to a multiple of this size.
const LINE_BYTES: u64 = 64;

impl Names<'_> {
    /// Returns the allocation that contained an address at the time of an access.
    pub(super) fn heap_at(&mut self, address: u64, seen: Seen, seen_from: &[u64]) -> Option<Thing> {
        let its = self.allocation_at(address, seen)?;
        if let Some(label) = self.plan.labels.get(&its.calls).cloned() {
            return Some(self.labelled(&its, &label));
        }
        let key = its.kind();
        if !self.named.contains_key(&key) {
            let named = self.name_of_kind(&its, seen_from);
            self.named.insert(key, named);
        }
        let Named { name, guess } = &self.named[&key];
        Some(Thing {
            name: name.clone(),
            kind: ThingKind::Heap,
            file: String::new(),
            start: its.piece.start,
            bytes: its.bytes,
            element_bytes: guess.as_ref().map_or(its.element_bytes, |guess| guess.element_bytes),
            of: guess.as_ref().map(|guess| (guess.module, guess.of)),
            is_whole: true,
            allocated: Some(key),
        })
    }

    /// Returns the type of similar allocations, and their name: the type and the allocation site.
    fn name_of_kind(&mut self, its: &Allocation, seen_from: &[u64]) -> Named {
        let guess = self.guess(its, seen_from);
        let (_, place) = self.taken_at(its.calls);
        let at = match place.line {
            0 => place.function.clone(),
            line => format!("{}:{line}", place.file.rsplit('/').next().unwrap_or_default()),
        };
        let name = match &guess {
            Some(guess) => {
                let types = self.types(guess.module);
                let name = |types: &TypeTable| {
                    let one = types.describe(Some(guess.of));
                    let is_number = matches!(types.get(guess.of).shape, Shape::Scalar);
                    let is_array = is_number && its.bytes > guess.element_bytes;
                    if is_array { format!("array of {one}") } else { one }
                };
                types.map_or_else(String::new, name)
            }
            None => format!("{} bytes", its.bytes),
        };
        let name = coreshard_topology::input::plain(&format!("{name}, taken at {at}"));
        Named { name, guess }
    }

    /// An object that the recorder named, with its type by name.
    fn labelled(&mut self, its: &Allocation, label: &Label) -> Thing {
        let is_stack = label.origin.starts_with("stack of ");
        let of = (!label.of.is_empty()).then(|| self.type_named(&label.of)).flatten();
        let name = match (is_stack, label.of.is_empty()) {
            (true, _) => label.origin.clone(),
            (_, true) => format!("{} object", label.origin),
            (_, false) => format!("{} ({})", label.of, label.origin),
        };
        Thing {
            name,
            kind: if is_stack { ThingKind::Stack } else { ThingKind::Heap },
            file: String::new(),
            start: its.piece.start,
            bytes: its.bytes,
            element_bytes: its.bytes,
            of,
            is_whole: true,
            allocated: Some(its.kind()),
        }
    }

    /// A type by the name that the recorder gave, in the first module that has it.
    fn type_named(&mut self, name: &str) -> Option<(usize, TypeId)> {
        let name = name.split_once(' ').map_or(name, |(_, name)| name);
        (0..self.plan.modules.len()).find_map(|number| {
            let found = self.loaded(number).of_name(name)?.first().copied()?;
            Some((number, found))
        })
    }

    fn allocation_at(&self, address: u64, seen: Seen) -> Option<Allocation> {
        let holds = |its: &Allocation| its.piece.holds(address);
        let owner = self.plan.allocations.get(seen.owner as usize);
        if let Some(its) = owner.filter(|its| holds(its)) {
            return Some(*its);
        }
        let on_line = self.plan.on_line.get(&(address & !(self.plan.line_bytes - 1)))?;
        let all = on_line.iter().map(|number| self.plan.allocations[*number as usize]);
        all.filter(holds).max_by_key(|its| {
            let Piece { taken, given_back, .. } = its.piece;
            (its.piece.lives(seen.ticket), given_back.saturating_sub(taken))
        })
    }

    /// Returns the allocation site: the first call of the program's own code that does not allocate memory on behalf of
    /// its callers. It does not depend on whether the compiler inlined such a function.
    fn taken_at(&mut self, number: u32) -> (usize, SourcePlace) {
        if let Some(known) = self.taken.get(&number) {
            return known.clone();
        }
        let calls = self.plan.calls[number as usize].clone();
        let site = calls.iter().take(MOST_CALLS).enumerate().find_map(|(depth, call)| {
            let address = call.wrapping_sub(1);
            let (module, its) = self.module_at(address)?;
            let frames = self.frames(module, address.wrapping_sub(its.base));
            let place = frames.into_iter().find(|place| place.is_own() && !place.is_allocator())?;
            Some((depth, place))
        });
        let site = site.unwrap_or_else(|| {
            let calls = calls.iter().take(MOST_CALLS);
            let places: Vec<_> = calls.map(|call| self.place(*call)).collect();
            let is_own = places.iter().position(SourcePlace::is_own);
            let at = is_own.or_else(|| places.iter().position(|place| place.line > 0)).unwrap_or(0);
            (at, places.get(at).cloned().unwrap_or_default())
        });
        self.taken.insert(number, site.clone());
        site
    }

    fn guess(&mut self, its: &Allocation, seen_from: &[u64]) -> Option<Guess> {
        let (site, _) = self.taken_at(its.calls);
        let calls = self.plan.calls[its.calls as usize].clone();
        let callers: Vec<_> = calls.into_iter().take(MOST_CALLS).collect();
        // A library's function that allocates elements has their type as a parameter.
        if let Some(found) = callers.iter().take(site + 1).find_map(|at| self.element_at(*at, its))
        {
            return Some(found);
        }
        let others: Vec<_> = seen_from.iter().copied().take(MOST_CALLS).collect();
        let accessed = self.pointed_to_names(&others);
        let places: Vec<_> = callers.into_iter().chain(others).collect();
        for fit in [Fit::Whole, Fit::RoundedUp] {
            for (depth, place) in places.iter().enumerate() {
                let found = self.pointed_to_at(*place, its, fit, &accessed);
                // Only the allocating function knows the type of an array. For other functions, too many types divide a
                // buffer's size.
                let is_known =
                    |found: &Guess| depth <= site || found.element_bytes == its.wanted_bytes();
                if found.as_ref().is_some_and(is_known) {
                    return found;
                }
            }
            if let Some(found) = self.pointed_to_by_global(its, fit) {
                return Some(found);
            }
        }
        None
    }

    /// Returns the type of this size that a global of the program points to, if there is only one.
    fn pointed_to_by_global(&mut self, its: &Allocation, fit: Fit) -> Option<Guess> {
        let mut modules = self.plan.modules.iter();
        let number = modules.position(|module| is_program(Path::new(&module.path)))?;
        let types = self.types(number)?;
        let mut found: Option<(TypeId, u64)> = None;
        for of in types.globals().iter().filter_map(|global| global.of) {
            let Shape::Pointer { to: Some(to) } = types.get(types.stripped(of)).shape else {
                continue;
            };
            let of = types.stripped(to);
            let Some(size) = taken_as(types, of, its, fit) else { continue };
            match found {
                Some((other, _)) if types.get(other).name != types.get(of).name => return None,
                _ => found = Some((of, size)),
            }
        }
        found.map(|(of, element_bytes)| Guess { module: number, of, element_bytes })
    }

    /// Returns the module at an address and the address in it. Returns none for the C library, whose code that starts
    /// threads does not know the types of their allocations.
    fn own_module_at(&mut self, instruction: u64) -> Option<(usize, u64)> {
        let address = instruction.wrapping_sub(1);
        let (number, module) = self.module_at(address)?;
        (!module.is_c_library()).then(|| (number, address.wrapping_sub(module.base)))
    }

    /// Returns the type of the elements that the library function at an address allocates, with the innermost inlined
    /// function first.
    fn element_at(&mut self, instruction: u64, its: &Allocation) -> Option<Guess> {
        let (module, within) = self.own_module_at(instruction)?;
        let loaded = self.loaded(module);
        let types = loaded.types.as_ref()?;
        let variables = loaded.binary.as_ref()?.variables_at(types, within)?;
        let mut allocating: Vec<_> = variables.iter().filter(|its| its.allocates > 0).collect();
        allocating.sort_by_key(|its| std::cmp::Reverse(its.allocates));
        allocating.into_iter().find_map(|named| {
            loaded.of_name(&named.name)?.iter().find_map(|of| {
                // Single bytes fit any allocation, so they are not a type.
                let element_bytes = types.size_bytes(*of).filter(|size| *size > 1)?;
                let fits = its.wanted_bytes().is_multiple_of(element_bytes);
                fits.then_some(Guess { module, of: *of, element_bytes })
            })
        })
    }

    /// Returns the names of the types that variables of the functions at these addresses point to.
    fn pointed_to_names(&mut self, instructions: &[u64]) -> HashSet<String> {
        let names = instructions.iter().filter_map(|instruction| {
            let (number, within) = self.own_module_at(*instruction)?;
            let loaded = self.loaded(number);
            let variables = loaded.binary.as_ref()?.variables_at(loaded.types.as_ref()?, within)?;
            let pointers = variables.iter().filter(|named| named.is_pointer);
            Some(pointers.map(|named| named.name.clone()).collect::<Vec<_>>())
        });
        names.flatten().collect()
    }

    /// Returns the largest type of this size that a variable of the function at an address points to. Of several, one that
    /// the functions which access it point to as well.
    fn pointed_to_at(
        &mut self,
        instruction: u64,
        its: &Allocation,
        fit: Fit,
        accessed: &HashSet<String>,
    ) -> Option<Guess> {
        let (number, within) = self.own_module_at(instruction)?;
        let loaded = self.loaded(number);
        let types = loaded.types.as_ref()?;
        let variables = loaded.binary.as_ref()?.variables_at(types, within)?;
        let by_name = variables.iter().filter_map(|named| {
            let mut found = loaded.of_name(&named.name)?.iter();
            // A variable that neither is nor points to the object is no evidence for an array.
            let fits = |size: &u64| named.is_pointer || *size == its.wanted_bytes();
            let (id, size) =
                found.find_map(|id| Some((*id, taken_as(types, *id, its, fit).filter(fits)?)))?;
            Some((id, (size, accessed.contains(&named.name))))
        });
        let sizes: HashMap<TypeId, (u64, bool)> = by_name.collect();
        let (of, (size, _)) = sizes
            .into_iter()
            .max_by_key(|(id, known)| (*known, types.size_bytes(*id), std::cmp::Reverse(*id)))?;
        Some(Guess { module: number, of, element_bytes: size })
    }
}

/// The relation between the size of a type and of an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The allocation is one object or an array.
    Whole,
    /// The allocation is one object, and the program rounded its size up to whole lines.
    RoundedUp,
}

/// Returns the size of one element if a record's type fits an allocation. A record with a flexible array takes the
/// whole allocation.
fn taken_as(types: &TypeTable, of: TypeId, its: &Allocation, fit: Fit) -> Option<u64> {
    let Allocation { bytes, element_bytes, .. } = *its;
    let Shape::Record(record) = &types.get(types.stripped(of)).shape else { return None };
    let size = types.size_bytes(of).filter(|size| *size > 0)?;
    let has_tail = record.members.last().is_some_and(|last| {
        types.is_flexible(last) && last.of.and_then(|of| types.size_bytes(of)).unwrap_or(0) == 0
    });
    if has_tail && element_bytes <= 1 && bytes > size {
        return Some(bytes);
    }
    // Memory that is to begin a line is allocated in whole lines and contains one object, not an array.
    let is_rounded = size >= 8 && size.next_multiple_of(LINE_BYTES) == bytes;
    let begins_line = its.piece.start.is_multiple_of(LINE_BYTES);
    if is_rounded && (element_bytes == bytes || (fit == Fit::RoundedUp && begins_line)) {
        return Some(bytes);
    }
    // Small types fit any allocation.
    let wanted = its.wanted_bytes();
    (size == wanted || (size >= 8 && wanted.is_multiple_of(size))).then_some(size)
}

//! Contents of the registers and the stack of a kernel's function, as far as its code tells.

use iced_x86::Register;

use crate::types::TypeId;

/// A byte of a type, which an instruction accesses or a register points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pointee {
    pub(super) of: TypeId,
    /// From the start of the type.
    pub(super) offset: i64,
}

impl Pointee {
    pub(super) fn plus(self, bytes: i64) -> Option<Self> {
        Some(Self { offset: self.offset.checked_add(bytes)?, ..self })
    }
}

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Pointer(Pointee),
    /// A pointer that is beyond this one by some multiple of a number of bytes, as to an element of an array within a type.
    Element(Pointee, u64),
    /// The pointer in this field of type `void *`.
    Opaque(Pointee),
    /// A number that is a multiple of this one.
    Multiple(u64),
}

impl Value {
    /// Returns the value plus this many bytes.
    pub(super) fn plus(self, bytes: i64) -> Option<Self> {
        match self {
            Self::Pointer(to) => Some(Self::Pointer(to.plus(bytes)?)),
            Self::Element(to, stride) => Some(Self::Element(to.plus(bytes)?, stride)),
            Self::Opaque(_) | Self::Multiple(_) => None,
        }
    }
}

/// The contents of registers, and of the stack by their distance from where it was at the function's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    registers: [Option<Value>; 16],
    /// How far the stack pointer is below where it was at the function's start; none if unknown.
    pub(super) depth: Option<i64>,
    stack: Vec<(i64, Value)>,
}

impl Known {
    /// Returns what is known at a function's start: where the stack is.
    pub(super) fn at_start() -> Self {
        Self { depth: Some(0), ..Self::default() }
    }

    pub(super) fn get(&self, register: Register) -> Option<Value> {
        self.registers.get(number_of(register)?).copied().flatten()
    }

    /// Returns what a register points to.
    pub(super) fn pointer(&self, register: Register) -> Option<Pointee> {
        match self.get(register)? {
            Value::Pointer(to) => Some(to),
            _ => None,
        }
    }

    /// Returns a number that a register's content is a multiple of.
    pub(super) fn multiple(&self, register: Register) -> u64 {
        match self.get(register) {
            Some(Value::Multiple(of)) => of,
            _ => 1,
        }
    }

    pub(super) fn set(&mut self, register: Register, to: Option<Value>) {
        if let Some(its) = number_of(register).and_then(|number| self.registers.get_mut(number)) {
            *its = to;
        }
    }

    pub(super) fn stack_at(&self, place: i64) -> Option<Value> {
        self.stack.iter().find(|(at, _)| *at == place).map(|(_, its)| *its)
    }

    pub(super) fn set_stack(&mut self, place: i64, to: Option<Value>) {
        self.stack.retain(|(at, _)| *at != place);
        self.stack.extend(to.map(|to| (place, to)));
        self.stack.sort_by_key(|(at, _)| *at);
    }

    /// Keeps what both know. Returns whether that is less than before.
    pub(super) fn meet(&mut self, other: &Self) -> bool {
        let before = self.clone();
        for (its, others) in self.registers.iter_mut().zip(&other.registers) {
            if its != others {
                *its = None;
            }
        }
        if self.depth != other.depth {
            self.depth = None;
            self.stack.clear();
        }
        self.stack.retain(|entry| other.stack.contains(entry));
        *self != before
    }
}

/// The number of a whole 64-bit register, or of the one that a part belongs to.
fn number_of(register: Register) -> Option<usize> {
    let whole = register.full_register();
    whole.is_gpr64().then(|| whole.number())
}

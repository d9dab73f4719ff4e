//! The types that a kernel's instructions work on, from the types of its functions' parameters.
//!
//! A function's parameters are in registers at its start. From there pointers are followed through moves, additions of
//! constants, loads of pointer fields, and the stack; calls leave what the callee returns. If two ways lead to an
//! instruction, a register is known there only if both agree. An access by a known register then has a type and an offset:
//! `mov 0x38(%rdi),%rax` in a function whose first parameter is a `struct rq *` is to byte 0x38 of a `struct rq`.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

use super::KernelSymbols;
use super::memory::GuestMemory;
use crate::types::{Prototype, Shape, TypeId, TypeTable};

/// Of a function; longer ones are looked at no further.
const MOST_BYTES: u64 = 64 << 10;
/// Instructions of a function that are looked at again because another way leads there with other registers.
const MOST_VISITS: usize = 200_000;
/// Fields of fields.
const MOST_DEPTH: u32 = 16;

/// The general registers in which parameters are passed.
const PARAMETERS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
/// Registers that a call may change.
const CHANGED_BY_CALLS: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// A byte of a type, which an instruction accesses or a register points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pointee {
    pub(super) of: TypeId,
    /// From the start of the type.
    pub(super) offset: i64,
}

/// The pointers in registers, and on the stack by their distance from where it was at the function's start.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    registers: [Option<Pointee>; 16],
    /// How far the stack pointer is below where it was at the function's start; none if unknown.
    depth: Option<i64>,
    stack: Vec<(i64, Pointee)>,
}

impl Known {
    fn get(&self, register: Register) -> Option<Pointee> {
        self.registers.get(number_of(register)?).copied().flatten()
    }

    fn set(&mut self, register: Register, to: Option<Pointee>) {
        if let Some(its) = number_of(register).and_then(|number| self.registers.get_mut(number)) {
            *its = to;
        }
    }

    fn stack_at(&self, place: i64) -> Option<Pointee> {
        self.stack.iter().find(|(at, _)| *at == place).map(|(_, its)| *its)
    }

    fn set_stack(&mut self, place: i64, to: Option<Pointee>) {
        self.stack.retain(|(at, _)| *at != place);
        self.stack.extend(to.map(|to| (place, to)));
        self.stack.sort_by_key(|(at, _)| *at);
    }

    /// Keeps what both know. Returns whether that is less than before.
    fn meet(&mut self, other: &Self) -> bool {
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

/// Finds what instructions access, function by function.
pub(super) struct Flow<'k> {
    memory: &'k GuestMemory,
    symbols: &'k KernelSymbols,
    types: &'k TypeTable,
    /// By the address after an instruction.
    targets: HashMap<u64, Pointee>,
    /// Instructions that access the stack, by the address after them.
    on_stack: HashSet<u64>,
    /// Functions that were looked at, by their address.
    seen: HashSet<u64>,
}

impl<'k> Flow<'k> {
    pub(super) fn new(
        memory: &'k GuestMemory,
        symbols: &'k KernelSymbols,
        types: &'k TypeTable,
    ) -> Self {
        Self {
            memory,
            symbols,
            types,
            targets: HashMap::new(),
            on_stack: HashSet::new(),
            seen: HashSet::new(),
        }
    }

    /// Returns what the instruction that ends at an address accesses, if that is known.
    pub(super) fn target(&mut self, after: u64) -> Option<Pointee> {
        self.look_at(after);
        self.targets.get(&after).copied()
    }

    /// Returns true if the instruction that ends at an address accesses the stack.
    pub(super) fn is_on_stack(&mut self, after: u64) -> bool {
        self.look_at(after);
        self.on_stack.contains(&after)
    }

    /// Follows the function that an instruction is in, once.
    fn look_at(&mut self, after: u64) {
        let Some(symbol) = self.symbols.at(after.wrapping_sub(1)) else { return };
        if self.seen.insert(symbol.address) {
            let bytes = symbol.size_bytes.min(MOST_BYTES);
            let mut code = vec![0; bytes as usize];
            if self.memory.read(symbol.address, &mut code).is_some() {
                // Parts that the compiler split off have the registers of the place that jumps there.
                let prototype = self.types.function(&symbol.name).cloned().unwrap_or_default();
                self.follow(symbol.address, &code, &prototype);
            }
        }
    }

    fn follow(&mut self, start: u64, code: &[u8], prototype: &Prototype) {
        let mut entry = Known { depth: Some(0), ..Known::default() };
        for (register, of) in PARAMETERS.iter().zip(&prototype.parameters) {
            entry.set(*register, of.and_then(|of| self.pointed_to(of)));
        }
        let end = start + code.len() as u64;
        let mut factory = InstructionInfoFactory::new();
        let mut known: HashMap<u64, Known> = HashMap::from([(start, entry)]);
        let mut waiting = vec![start];
        let mut visits = 0;
        while let Some(mut at) = waiting.pop() {
            let Some(mut state) = known.get(&at).cloned() else { continue };
            loop {
                visits += 1;
                if !(start..end).contains(&at) || visits > MOST_VISITS {
                    break;
                }
                let rest = &code[(at - start) as usize..];
                let mut decoder = Decoder::with_ip(64, rest, at, DecoderOptions::NONE);
                let instruction = decoder.decode();
                if instruction.is_invalid() {
                    break;
                }
                self.step(&instruction, &mut state, &mut factory);
                let next = instruction.next_ip();
                let mut leads_to = |to: u64, state: &Known| {
                    let is_new = match known.get_mut(&to) {
                        Some(there) => there.meet(state),
                        None => known.insert(to, state.clone()).is_none(),
                    };
                    if is_new {
                        waiting.push(to);
                    }
                };
                match instruction.flow_control() {
                    FlowControl::ConditionalBranch => {
                        leads_to(instruction.near_branch_target(), &state);
                    }
                    FlowControl::UnconditionalBranch => {
                        let to = instruction.near_branch_target();
                        if (start..end).contains(&to) {
                            leads_to(to, &state);
                        }
                        break;
                    }
                    FlowControl::Return
                    | FlowControl::IndirectBranch
                    | FlowControl::Exception
                    | FlowControl::Interrupt => break,
                    _ => {}
                }
                // Where ways come together, the state is that of all of them.
                match known.get_mut(&next) {
                    Some(there) => {
                        if there.meet(&state) {
                            waiting.push(next);
                        }
                        break;
                    }
                    None => {
                        known.insert(next, state.clone());
                    }
                }
                at = next;
            }
        }
    }

    /// Notes what an instruction accesses, and what it does to the registers.
    fn step(
        &mut self,
        instruction: &Instruction,
        state: &mut Known,
        factory: &mut InstructionInfoFactory,
    ) {
        let memory = self.memory_operand(instruction, state);
        match memory {
            Some(target) => {
                self.targets.insert(instruction.next_ip(), target);
            }
            // Another way that leads here knows less.
            None => {
                self.targets.remove(&instruction.next_ip());
            }
        }
        let is_on_stack = instruction.is_stack_instruction()
            || instruction.memory_base() == Register::RSP
            || matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Pop | Mnemonic::Call);
        if is_on_stack {
            self.on_stack.insert(instruction.next_ip());
        }
        let flow = instruction.flow_control();
        if matches!(flow, FlowControl::Call | FlowControl::IndirectCall) {
            let returned = self.returned_by(instruction);
            CHANGED_BY_CALLS.iter().for_each(|register| state.set(*register, None));
            state.set(Register::RAX, returned);
            return;
        }
        let result = self.result(instruction, state);
        let depth = self.depth_after(instruction, state);
        if let Some((place, value)) = self.stack_store(instruction, state) {
            state.set_stack(place, value);
        }
        for used in factory.info(instruction).used_registers() {
            if matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            ) {
                state.set(used.register(), None);
            }
        }
        if let Some((register, target)) = result {
            state.set(register, target);
        }
        state.depth = depth;
    }

    /// The type and offset that a memory operand with a known base accesses. An index may only add to it.
    fn memory_operand(&self, instruction: &Instruction, state: &Known) -> Option<Pointee> {
        let has_memory =
            (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
        if !has_memory || instruction.mnemonic() == Mnemonic::Lea {
            return None;
        }
        if instruction.memory_index() != Register::None {
            return None;
        }
        let base = state.get(instruction.memory_base())?;
        let offset = base.offset.checked_add(instruction.memory_displacement64() as i64)?;
        Some(Pointee { offset, ..base })
    }

    /// What an instruction puts into its first register, if that is a pointer into a known type.
    fn result(
        &self,
        instruction: &Instruction,
        state: &Known,
    ) -> Option<(Register, Option<Pointee>)> {
        if instruction.op_count() < 2 && instruction.mnemonic() != Mnemonic::Pop {
            return None;
        }
        let to = instruction.op0_register();
        if instruction.op0_kind() != OpKind::Register || !to.is_gpr64() {
            return None;
        }
        let value = match instruction.mnemonic() {
            Mnemonic::Mov => match instruction.op1_kind() {
                OpKind::Register => state.get(instruction.op1_register()),
                OpKind::Memory => match self.stack_place(instruction, state) {
                    Some(place) => state.stack_at(place),
                    None => {
                        let from = self.memory_operand(instruction, state)?;
                        self.pointer_field(from)
                    }
                },
                _ => None,
            },
            Mnemonic::Lea if instruction.memory_index() == Register::None => {
                let base = state.get(instruction.memory_base());
                base.and_then(|base| {
                    let by = instruction.memory_displacement64() as i64;
                    Some(Pointee { offset: base.offset.checked_add(by)?, ..base })
                })
            }
            Mnemonic::Add | Mnemonic::Sub if has_immediate(instruction) => {
                let by = instruction.immediate(1) as i64;
                let by =
                    if instruction.mnemonic() == Mnemonic::Sub { by.wrapping_neg() } else { by };
                state
                    .get(to)
                    .and_then(|its| Some(Pointee { offset: its.offset.checked_add(by)?, ..its }))
            }
            Mnemonic::Pop => state.depth.and_then(|depth| state.stack_at(depth)),
            // Either of two: known if both are the same.
            Mnemonic::Cmove | Mnemonic::Cmovne => {
                let (a, b) = (state.get(to), state.get(instruction.op1_register()));
                if a == b { a } else { None }
            }
            _ => return None,
        };
        Some((to, value))
    }

    /// The place on the stack that an instruction's memory operand is.
    fn stack_place(&self, instruction: &Instruction, state: &Known) -> Option<i64> {
        let is_stack = instruction.memory_base() == Register::RSP
            && instruction.memory_index() == Register::None;
        let depth = state.depth.filter(|_| is_stack)?;
        depth.checked_add(instruction.memory_displacement64() as i64)
    }

    /// A store of a whole register to the stack: where, and what is known of it.
    fn stack_store(
        &self,
        instruction: &Instruction,
        state: &Known,
    ) -> Option<(i64, Option<Pointee>)> {
        match instruction.mnemonic() {
            Mnemonic::Push => {
                let place = state.depth?.checked_sub(8)?;
                let is_register = instruction.op0_kind() == OpKind::Register;
                Some((place, state.get(instruction.op0_register()).filter(|_| is_register)))
            }
            _ if instruction.op_count() > 0
                && instruction.op0_kind() == OpKind::Memory
                && instruction.mnemonic() != Mnemonic::Cmp
                && instruction.mnemonic() != Mnemonic::Test =>
            {
                let place = self.stack_place(instruction, state)?;
                let is_whole = instruction.code() == Code::Mov_rm64_r64;
                Some((place, state.get(instruction.op1_register()).filter(|_| is_whole)))
            }
            _ => None,
        }
    }

    fn depth_after(&self, instruction: &Instruction, state: &Known) -> Option<i64> {
        let depth = state.depth?;
        let changes = |register: Register| {
            instruction.op_count() > 0
                && instruction.op0_kind() == OpKind::Register
                && instruction.op0_register() == register
        };
        match instruction.mnemonic() {
            Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq => {
                depth.checked_add(i64::from(instruction.stack_pointer_increment()))
            }
            Mnemonic::Add if changes(Register::RSP) && has_immediate(instruction) => {
                depth.checked_add(instruction.immediate(1) as i64)
            }
            Mnemonic::Sub if changes(Register::RSP) && has_immediate(instruction) => {
                depth.checked_sub(instruction.immediate(1) as i64)
            }
            Mnemonic::Cmp | Mnemonic::Test => Some(depth),
            _ if changes(Register::RSP) => None,
            Mnemonic::Leave => None,
            _ => Some(depth),
        }
    }

    fn returned_by(&self, instruction: &Instruction) -> Option<Pointee> {
        let to = match instruction.flow_control() {
            FlowControl::Call => instruction.near_branch_target(),
            _ => return None,
        };
        let callee = self.symbols.at(to).filter(|symbol| symbol.address == to)?;
        self.pointed_to(self.types.function(&callee.name)?.returns?)
    }

    /// The start of what a pointer points to, if that has fields.
    fn pointed_to(&self, pointer: TypeId) -> Option<Pointee> {
        let Shape::Pointer { to: Some(to) } = self.types.get(self.types.stripped(pointer)).shape
        else {
            return None;
        };
        let of = self.types.stripped(to);
        let is_record = matches!(self.types.get(of).shape, Shape::Record(_));
        (is_record && self.types.size_bytes(of).is_some_and(|bytes| bytes > 0))
            .then_some(Pointee { of, offset: 0 })
    }

    /// The start of the type that a field points to.
    fn pointer_field(&self, field: Pointee) -> Option<Pointee> {
        let (mut at, mut within) = (field.of, u64::try_from(field.offset).ok()?);
        for _ in 0..MOST_DEPTH {
            match &self.types.get(self.types.stripped(at)).shape {
                Shape::Pointer { .. } if within == 0 => return self.pointed_to(at),
                Shape::Record(record) => {
                    let holds = record.members.iter().find(|member| {
                        let start = member.offset_bits / 8;
                        let bytes = member.of.and_then(|of| self.types.size_bytes(of)).unwrap_or(0);
                        member.field_bits.is_none() && (start..start + bytes).contains(&within)
                    })?;
                    within -= holds.offset_bits / 8;
                    at = holds.of?;
                }
                Shape::Array { of: Some(of), .. } => {
                    within %= self.types.size_bytes(*of).filter(|bytes| *bytes > 0)?;
                    at = *of;
                }
                _ => return None,
            }
        }
        None
    }
}

fn has_immediate(instruction: &Instruction) -> bool {
    matches!(
        instruction.op1_kind(),
        OpKind::Immediate8
            | OpKind::Immediate32
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

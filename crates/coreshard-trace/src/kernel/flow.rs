//! The types that a kernel's instructions work on, from the types of its functions' parameters.
//!
//! A function's parameters are in registers at its start. From there pointers are followed through moves, additions of
//! constants, loads of pointer fields, and the stack; calls leave what the callee returns. If two ways lead to an
//! instruction, a register is known there only if both agree. An access by a known register then has a type and an offset:
//! `mov 0x38(%rdi),%rax` in a function whose first parameter is a `struct rq *` is to byte 0x38 of a `struct rq`.
//!
//! The compiler makes variants of static functions that BTF does not have. Their parameters are found in the registers of
//! the functions that call them.

use std::collections::{HashMap, HashSet};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

use super::memory::GuestMemory;
use super::registers::{Known, Pointee, Value};
use super::{KernelSymbol, KernelSymbols};
use crate::types::{Shape, TypeId, TypeTable};

/// Of a function; longer ones are looked at no further.
const MOST_BYTES: u64 = 64 << 10;
/// Instructions of a function that are looked at again because another way leads there with other registers.
const MOST_VISITS: usize = 200_000;
/// Fields of fields.
const MOST_DEPTH: u32 = 16;
/// Callers of a function without types, and callers of callers.
const MOST_CALLERS: usize = 8;
const MOST_LEVELS: u32 = 3;
/// A call or a jump with a distance of 4 bytes.
const CALL_BYTES: usize = 5;
/// The code of the kernel, or of one of its modules.
const MOST_CODE_BYTES: u64 = 256 << 20;
const PAGE_BYTES: usize = 4_096;
/// Of numbers in arrays: those of a word of a bitmap, and of an `int`. Bytes are mostly text.
const NUMBER_BYTES: [u64; 2] = [4, 8];

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
    /// Pointers that callers have in the registers of parameters, by the function that they call.
    arguments: HashMap<u64, [Option<Pointee>; 6]>,
    /// Calls of functions without types, by the function; of the kernel and of each module that was looked at.
    calls: HashMap<u64, Vec<u64>>,
    searched: HashSet<Option<String>>,
    /// The types that fields of type `void *` point to in a module's code.
    private: HashMap<(String, Pointee), HashSet<TypeId>>,
    /// Modules whose code was looked at for those.
    learned: HashSet<String>,
    /// The module of the code that is followed.
    module: Option<String>,
    is_learning: bool,
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
            arguments: HashMap::new(),
            calls: HashMap::new(),
            searched: HashSet::new(),
            private: HashMap::new(),
            learned: HashSet::new(),
            module: None,
            is_learning: false,
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
        if let Some(module) =
            self.symbols.at(after.wrapping_sub(1)).and_then(|its| its.module.as_ref())
            && !self.learned.contains(module)
        {
            self.learn(module);
        }
        self.look_at_function(after, MOST_LEVELS);
    }

    /// Finds which types a module keeps behind fields of type `void *`: those with which it calls functions, and those that it
    /// stores. Its functions are followed again with that, when they are asked for.
    fn learn(&mut self, module: &str) {
        self.learned.insert(module.to_owned());
        let all = self.symbols.all().iter();
        let own = all.filter(|its| !its.is_data && its.module.as_deref() == Some(module));
        let own: Vec<u64> = own.map(|its| its.address).collect();
        let before = self.seen.clone();
        self.is_learning = true;
        own.iter().for_each(|start| self.look_at_function(start + 1, MOST_LEVELS));
        self.is_learning = false;
        self.seen = before;
    }

    /// Notes what a field of type `void *` points to.
    fn note_private(&mut self, field: Pointee, to: Pointee) {
        let module = self.module.clone().filter(|_| self.is_learning && to.offset == 0);
        if let Some(module) = module {
            self.private.entry((module, field)).or_default().insert(to.of);
        }
    }

    /// Returns the type that a field of type `void *` points to in the code of the module, if it is always the same.
    fn private_of(&self, field: Pointee) -> Option<Pointee> {
        let found = self.private.get(&(self.module.clone()?, field))?;
        let mut found = found.iter();
        let of = *found.next()?;
        found.next().is_none().then_some(Pointee { of, offset: 0 })
    }

    fn look_at_function(&mut self, after: u64, levels: u32) {
        let Some(symbol) = self.symbols.at(after.wrapping_sub(1)) else { return };
        if symbol.is_data || !self.seen.insert(symbol.address) {
            return;
        }
        let of_btf = self.types.function(&symbol.name);
        let parameters = match of_btf {
            Some(its) => {
                let mut found = [None; 6];
                for (place, of) in found.iter_mut().zip(&its.parameters) {
                    *place = of.and_then(|of| self.pointed_to(of));
                }
                found
            }
            None => self.arguments_of(symbol, levels),
        };
        let bytes = symbol.size_bytes.min(MOST_BYTES);
        let mut code = vec![0; bytes as usize];
        if self.memory.read(symbol.address, &mut code).is_some() {
            self.module.clone_from(&symbol.module);
            self.follow(symbol.address, &code, parameters);
        }
    }

    /// Returns the arguments that callers pass to a function without types.
    fn arguments_of(&mut self, symbol: &KernelSymbol, levels: u32) -> [Option<Pointee>; 6] {
        if levels > 0 {
            self.search(symbol.module.as_deref());
            for call in self.calls.remove(&symbol.address).unwrap_or_default() {
                self.look_at_function(call + 1, levels - 1);
            }
        }
        self.arguments.get(&symbol.address).copied().unwrap_or_default()
    }

    /// Finds the calls of functions without types in the kernel's code or that of a module, once.
    fn search(&mut self, module: Option<&str>) {
        if !self.searched.insert(module.map(str::to_owned)) {
            return;
        }
        let own = || {
            let all = self.symbols.all().iter();
            all.filter(|its| !its.is_data && its.module.as_deref() == module && its.address != 0)
        };
        let untyped: HashSet<u64> = own()
            .filter(|its| self.types.function(&its.name).is_none())
            .map(|its| its.address)
            .collect();
        let (Some(start), Some(end)) = (
            own().map(|its| its.address).min(),
            own().map(|its| its.address + its.size_bytes).max(),
        ) else {
            return;
        };
        let mut code = vec![0; (end - start).min(MOST_CODE_BYTES) as usize];
        for (number, page) in code.chunks_mut(PAGE_BYTES).enumerate() {
            let at = start + (number * PAGE_BYTES) as u64;
            // The code that the kernel booted with is no longer there.
            let _ = self.memory.read(at, page);
        }
        for (at, window) in code.windows(CALL_BYTES).enumerate() {
            let (0xe8 | 0xe9, Some(distance)) = (window[0], window[1..].first_chunk::<4>()) else {
                continue;
            };
            let call = start + at as u64;
            let after = call.wrapping_add(CALL_BYTES as u64);
            let to = after.wrapping_add_signed(i64::from(i32::from_le_bytes(*distance)));
            if untyped.contains(&to) {
                let calls = self.calls.entry(to).or_default();
                if calls.len() < MOST_CALLERS {
                    calls.push(call);
                }
            }
        }
    }

    /// Notes the arguments of a call, or of a jump out of the function.
    fn note_arguments(&mut self, to: u64, state: &Known) {
        let is_function = self.symbols.at(to).is_some_and(|symbol| {
            symbol.address == to && self.types.function(&symbol.name).is_none()
        });
        if is_function {
            let known = self.arguments.entry(to).or_default();
            for (its, register) in known.iter_mut().zip(PARAMETERS) {
                *its = its.or(state.pointer(register));
            }
        }
        // The types of the parameters tell what a private pointer is.
        let callee = self.symbols.at(to).filter(|symbol| symbol.address == to);
        if let Some(its) = callee.and_then(|symbol| self.types.function(&symbol.name)) {
            for (of, register) in its.parameters.iter().zip(PARAMETERS) {
                let to = of.and_then(|of| self.pointed_to(of));
                if let (Some(Value::Opaque(field)), Some(to)) = (state.get(register), to) {
                    self.note_private(field, to);
                }
            }
        }
    }

    fn follow(&mut self, start: u64, code: &[u8], parameters: [Option<Pointee>; 6]) {
        let mut entry = Known::at_start();
        for (register, its) in PARAMETERS.iter().zip(parameters) {
            entry.set(*register, its.map(Value::Pointer));
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
                        } else {
                            self.note_arguments(to, &state);
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
        match self.place(instruction, state) {
            Some(Value::Pointer(target)) if instruction.mnemonic() != Mnemonic::Lea => {
                self.targets.insert(instruction.next_ip(), target);
                self.note_store(instruction, target, state);
            }
            // Another way that leads here knows less.
            _ => {
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
            if flow == FlowControl::Call {
                self.note_arguments(instruction.near_branch_target(), state);
            }
            let returned = self.returned_by(instruction);
            CHANGED_BY_CALLS.iter().for_each(|register| state.set(*register, None));
            state.set(Register::RAX, returned.map(Value::Pointer));
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

    /// Notes the type of a pointer that is stored to a field of type `void *`.
    fn note_store(&mut self, instruction: &Instruction, field: Pointee, state: &Known) {
        if instruction.code() == Code::Mov_rm64_r64
            && let Some(to) = state.pointer(instruction.op1_register())
            && self.is_opaque(field)
        {
            self.note_private(field, to);
        }
    }

    /// Where a memory operand with a known base points to.
    fn place(&self, instruction: &Instruction, state: &Known) -> Option<Value> {
        let has_memory =
            (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
        if !has_memory {
            return None;
        }
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let scale = u64::from(instruction.memory_index_scale());
        let by = instruction.memory_displacement64() as i64;
        if index == Register::None {
            return state.get(base)?.plus(by);
        }
        let pointer = self.indexed(state.get(base), scale * state.multiple(index), by);
        // Either register may have the pointer.
        pointer.or_else(|| {
            self.indexed(state.get(index).filter(|_| scale == 1), state.multiple(base), by)
        })
    }

    /// A pointer after a multiple of `stride` bytes was added, and `by`. An element of an array is as good as the first.
    fn indexed(&self, pointer: Option<Value>, stride: u64, by: i64) -> Option<Value> {
        match pointer?.plus(by)? {
            Value::Pointer(to) => {
                let bytes = self.types.size_bytes(to.of).filter(|bytes| *bytes > 0)?;
                if stride.is_multiple_of(bytes) {
                    // Words of a bitmap may be counted from any of them.
                    let is_number = matches!(self.types.get(to.of).shape, Shape::Scalar);
                    let offset = if is_number { to.offset % bytes as i64 } else { to.offset };
                    return Some(Value::Pointer(Pointee { offset, ..to }));
                }
                (stride > 1).then_some(Value::Element(to, stride))
            }
            Value::Element(to, other) => {
                let both = if stride.is_multiple_of(other) { other } else { stride };
                other.is_multiple_of(both).then_some(Value::Element(to, both))
            }
            Value::Opaque(_) | Value::Multiple(_) => None,
        }
    }

    /// What an instruction puts into its first register, if that is known.
    fn result(
        &self,
        instruction: &Instruction,
        state: &Known,
    ) -> Option<(Register, Option<Value>)> {
        if instruction.op_count() < 2 && instruction.mnemonic() != Mnemonic::Pop {
            return None;
        }
        let to = instruction.op0_register();
        let is_number = matches!(instruction.mnemonic(), Mnemonic::Shl | Mnemonic::Imul);
        let is_register = to.is_gpr64() || (is_number && to.is_gpr32());
        if instruction.op0_kind() != OpKind::Register || !is_register {
            return None;
        }
        let value = match instruction.mnemonic() {
            Mnemonic::Mov => match instruction.op1_kind() {
                OpKind::Register => state.get(instruction.op1_register()),
                OpKind::Memory => match self.stack_place(instruction, state) {
                    Some(place) => state.stack_at(place),
                    None => self.loaded(instruction, state),
                },
                _ => None,
            },
            Mnemonic::Lea => {
                self.place(instruction, state).or_else(|| computed(instruction, state))
            }
            Mnemonic::Add | Mnemonic::Sub if has_immediate(instruction) => {
                let by = instruction.immediate(1) as i64;
                let is_sub = instruction.mnemonic() == Mnemonic::Sub;
                state.get(to).and_then(|its| its.plus(if is_sub { by.wrapping_neg() } else { by }))
            }
            Mnemonic::Add => {
                let other = match instruction.op1_kind() {
                    OpKind::Memory => self.loaded(instruction, state),
                    _ => state.get(instruction.op1_register()),
                };
                let stride = match other {
                    Some(Value::Multiple(stride)) => stride,
                    _ => 1,
                };
                let sum = self.indexed(state.get(to), stride, 0);
                sum.or_else(|| self.indexed(other, state.multiple(to), 0))
            }
            Mnemonic::Shl if has_immediate(instruction) => {
                let by = instruction.immediate(1).min(31) as u32;
                state.multiple(to).checked_mul(1 << by).map(Value::Multiple)
            }
            Mnemonic::Imul if instruction.op_count() == 3 => {
                let by = instruction.immediate(2) as i64;
                u64::try_from(by).ok().filter(|by| *by > 0).map(Value::Multiple)
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

    /// What a load of a pointer gets.
    fn loaded(&self, instruction: &Instruction, state: &Known) -> Option<Value> {
        match self.place(instruction, state)? {
            Value::Pointer(field) => match self.pointer_field(field, None) {
                Some(to) => Some(Value::Pointer(to)),
                None if self.is_opaque(field) => {
                    let private = self.private_of(field);
                    Some(private.map_or(Value::Opaque(field), Value::Pointer))
                }
                None => None,
            },
            Value::Element(field, stride) => {
                self.pointer_field(field, Some(stride)).map(Value::Pointer)
            }
            Value::Opaque(_) | Value::Multiple(_) => None,
        }
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
    ) -> Option<(i64, Option<Value>)> {
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

    /// The start of what a pointer points to, if that has fields, or is a word of a bitmap or an element of an array.
    fn pointed_to(&self, pointer: TypeId) -> Option<Pointee> {
        let Shape::Pointer { to: Some(to) } = self.types.get(self.types.stripped(pointer)).shape
        else {
            return None;
        };
        let of = self.types.stripped(to);
        let bytes = self.types.size_bytes(of).unwrap_or(0);
        let has_parts = match self.types.get(of).shape {
            Shape::Record(_) => bytes > 0,
            Shape::Scalar => NUMBER_BYTES.contains(&bytes),
            _ => false,
        };
        has_parts.then_some(Pointee { of, offset: 0 })
    }

    /// The start of the type that a field points to. With a stride, the field is one of the elements of an array.
    fn pointer_field(&self, field: Pointee, stride: Option<u64>) -> Option<Pointee> {
        self.pointed_to(self.field(field, stride)?)
    }

    /// Whether a field is a pointer without a type.
    fn is_opaque(&self, field: Pointee) -> bool {
        let of = self.field(field, None).map(|of| &self.types.get(self.types.stripped(of)).shape);
        matches!(of, Some(Shape::Pointer { to: None }))
    }

    /// The type of the pointer at a place within a type.
    fn field(&self, field: Pointee, stride: Option<u64>) -> Option<TypeId> {
        let (mut at, mut within) = (field.of, u64::try_from(field.offset).ok()?);
        let mut is_element = stride.is_none();
        for _ in 0..MOST_DEPTH {
            match &self.types.get(self.types.stripped(at)).shape {
                Shape::Pointer { .. } if within == 0 && is_element => return Some(at),
                Shape::Record(record) => {
                    let holds = record.members.iter().find(|member| {
                        let start = member.offset_bits / 8;
                        let bytes = member.of.and_then(|of| self.types.size_bytes(of)).unwrap_or(0);
                        let is_within = (start..start + bytes).contains(&within)
                            || (self.types.is_flexible(member) && within >= start);
                        member.field_bits.is_none() && is_within
                    })?;
                    within -= holds.offset_bits / 8;
                    at = holds.of?;
                }
                Shape::Array { of: Some(of), .. } => {
                    let bytes = self.types.size_bytes(*of).filter(|bytes| *bytes > 0)?;
                    within %= bytes;
                    is_element |= stride.is_some_and(|stride| stride.is_multiple_of(bytes));
                    at = *of;
                }
                _ => return None,
            }
        }
        None
    }
}

/// The multiple that an address computation without a pointer is.
fn computed(instruction: &Instruction, state: &Known) -> Option<Value> {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    if instruction.memory_displacement64() != 0 || index == Register::None {
        return None;
    }
    let scale = u64::from(instruction.memory_index_scale());
    let times = match base {
        Register::None => scale,
        _ if base == index => scale + 1,
        _ => return None,
    };
    state.multiple(index).checked_mul(times).map(Value::Multiple)
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

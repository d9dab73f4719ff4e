/* The kinds of instructions that a plugin treats differently. */

enum shape { PLAIN, AT_ONCE, CALL, RETURN, SYSTEM_CALL };

static enum shape shape_x86(const uint8_t *code, size_t bytes) {
  size_t at = 0;
  bool is_locked = false;
  for (; at < bytes; at++) {
    uint8_t byte = code[at];
    if (byte == 0xf0)
      is_locked = true;
    else if (byte != 0x66 && byte != 0x67 && byte != 0xf2 && byte != 0xf3 && byte != 0x2e && byte != 0x36 && byte != 0x3e &&
             byte != 0x26 && byte != 0x64 && byte != 0x65 && (byte & 0xf0) != 0x40)
      break;
  }
  if (at >= bytes) return PLAIN;
  if (is_locked) return AT_ONCE;
  uint8_t next = at + 1 < bytes ? code[at + 1] : 0;
  switch (code[at]) {
    case 0xe8: return CALL;
    case 0xc2:
    case 0xc3: return RETURN;
    case 0xff: return (next >> 3 & 7) == 2 ? CALL : PLAIN;
    /* The exchange of a register and memory has the lock without saying so. */
    case 0x86:
    case 0x87: return next < 0xc0 ? AT_ONCE : PLAIN;
    case 0x0f: return next == 0x05 ? SYSTEM_CALL : PLAIN;
    default: return PLAIN;
  }
}

static enum shape shape_arm(const uint8_t *code, size_t bytes) {
  uint32_t word = 0;
  if (bytes != 4) return PLAIN;
  __builtin_memcpy(&word, code, 4);
  if (word >> 26 == 0x25 || (word & 0xfffffc1f) == 0xd63f0000) return CALL;
  if ((word & 0xfffffc1f) == 0xd65f0000) return RETURN;
  if ((word & 0xffe0001f) == 0xd4000001) return SYSTEM_CALL;
  /* Exclusive loads and stores and compare-and-swap, but not loads that acquire and stores that release. */
  if ((word & 0x3f000000) == 0x08000000) return (word & 0x00a00000) == 0x00800000 ? PLAIN : AT_ONCE;
  return (word & 0x3b200c00) == 0x38200000 ? AT_ONCE : PLAIN;
}

/* Whether an x86-64 instruction may access memory, and goes on with the next one without leaving the emulator.
 *
 * QEMU 7.2 keeps the callbacks of an instruction that calls a function of the emulator's, such as a conditional jump that
 * computes its flags, even if that instruction has left the translated code. It then uses them again after they were
 * dropped. So callbacks are asked for memory operands alone, and not of system instructions. */
static bool accesses_memory_x86(const uint8_t *code, size_t bytes) {
  size_t at = 0;
  while (at < bytes && (code[at] == 0xf0 || code[at] == 0x66 || code[at] == 0x67 || code[at] == 0xf2 || code[at] == 0xf3 ||
                        code[at] == 0x2e || code[at] == 0x36 || code[at] == 0x3e || code[at] == 0x26 || code[at] == 0x64 ||
                        code[at] == 0x65 || (code[at] & 0xf0) == 0x40))
    at++;
  if (at >= bytes) return false;
  uint8_t opcode = code[at];
  if (opcode == 0x0f) {
    if (at + 2 >= bytes) return false;
    uint8_t second = code[at + 1], modrm = code[at + 2], reg = modrm >> 3 & 7;
    if (second == 0x38 || second == 0x3a) return at + 3 < bytes && code[at + 3] < 0xc0;
    if (second <= 0x0d || (second >= 0x18 && second <= 0x27) || (second >= 0x30 && second <= 0x37)) return false;
    if ((second & 0xf0) == 0x80 || (second >= 0xa0 && second <= 0xa2) || (second >= 0xa8 && second <= 0xaa)) return false;
    if (second == 0xae || second == 0xb2 || second == 0xb4 || second == 0xb5 || second == 0xb9 || second == 0xff ||
        (second >= 0xc8 && second <= 0xcf) || second == 0x77)
      return false;
    if (second == 0xc7 && reg != 1) return false;
    return modrm < 0xc0;
  }
  bool has_modrm = (opcode < 0x40 && (opcode & 7) < 4) || opcode == 0x63 || opcode == 0x69 || opcode == 0x6b ||
                   (opcode >= 0x80 && opcode <= 0x8b) || opcode == 0x8f || opcode == 0xc0 || opcode == 0xc1 || opcode == 0xc6 ||
                   opcode == 0xc7 || (opcode >= 0xd0 && opcode <= 0xd3) || (opcode >= 0xd8 && opcode <= 0xdf) ||
                   opcode == 0xf6 || opcode == 0xf7 || opcode == 0xfe || opcode == 0xff;
  if (has_modrm) {
    if (at + 1 >= bytes) return false;
    uint8_t modrm = code[at + 1], reg = modrm >> 3 & 7;
    if (opcode == 0xff) return reg == 6 || (modrm < 0xc0 ? reg != 3 && reg != 5 : reg == 2);
    return modrm < 0xc0;
  }
  switch (opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c:
    case 0xc2:
    case 0xc3:
    case 0xc4: /* AVX, whose operands are not looked at. */
    case 0xc5:
    case 0x62:
    case 0xc8:
    case 0xc9:
    case 0xe8: return true;
    default:
      return (opcode & 0xf0) == 0x50 || (opcode >= 0xa0 && opcode <= 0xa7) || (opcode >= 0xaa && opcode <= 0xaf);
  }
}

/* Registers the callbacks of each instruction by its kind, and initializes the plugin. */

/* Whether an instruction for aarch64 is in the class of loads and stores. */
static bool accesses_memory_arm(const uint8_t *code, size_t bytes) {
  return bytes == 4 && (code[3] & 0x0a) == 0x08;
}

static bool accesses_memory(const uint8_t *code, size_t bytes) {
  return numbers.is_x86 ? accesses_memory_x86(code, bytes) : accesses_memory_arm(code, bytes);
}

static void translated(plugin_id id, struct plugin_tb *tb) {
  (void)id;
  size_t count = qemu_plugin_tb_n_insns(tb);
  bool has_access = false;
  for (size_t i = 0; i < count; i++) {
    struct plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
    uint64_t pc = qemu_plugin_insn_vaddr(insn);
    uint8_t *host = qemu_plugin_insn_haddr(insn);
    if (!is_based && host != NULL) {
      is_based = true;
      guest_base = (uint64_t)host - pc;
      tell_modules(0);
    }
    bool is_helper = pc >= atomic_load(&helper_start) && pc < atomic_load(&helper_end);
    uint8_t code[MOST_CODE];
    size_t bytes = code_of(insn, code);
    enum shape shape = numbers.is_x86 ? shape_x86(code, bytes) : shape_arm(code, bytes);
    uint64_t after = pc + bytes;
    has_access |= is_helper || shape == SYSTEM_CALL || accesses_memory(code, bytes);
    /* If the return address is not on the stack, only the return shows the end of a call. */
    if (shape == CALL && !numbers.is_x86)
      qemu_plugin_register_vcpu_insn_exec_cb(insn, links, NO_REGISTERS, (void *)after);
    if (shape == RETURN && !numbers.is_x86)
      qemu_plugin_register_vcpu_insn_exec_cb(insn, unlinks, NO_REGISTERS, NULL);
    if (is_helper) continue;
    note_place(after, qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)), i, count);
    if (shape == SYSTEM_CALL) {
      void *is_in_library = is_library(pc) ? &call : NULL;
      qemu_plugin_register_vcpu_insn_exec_cb(insn, enters_kernel, NO_REGISTERS, is_in_library);
    } else {
      on_memory *on = shape == AT_ONCE                     ? accessed_at_once
                      : shape == CALL && numbers.is_x86   ? calls
                      : shape == RETURN && numbers.is_x86 ? returns
                                                          : accessed;
      qemu_plugin_register_vcpu_mem_cb(insn, on, NO_REGISTERS, MEM_BOTH, (void *)after);
    }
  }
  if (!has_access) qemu_plugin_register_vcpu_tb_exec_cb(tb, computes, NO_REGISTERS, (void *)(uintptr_t)count);
}

static void forked(void) {
  spool_leave();
  self = &nobody;
}

EXPORT int qemu_plugin_install(plugin_id id, const struct plugin_info *info, int count, char **options) {
  (void)count, (void)options;
  if (strcmp(info->target_name, "x86_64") == 0)
    numbers = (struct numbers){true, 56, 202, 9, 59, 322, {0, 17, 45}, {1, 18, 44}};
  else if (strcmp(info->target_name, "aarch64") == 0)
    numbers = (struct numbers){false, 220, 98, 222, 221, 281, {63, 67, 207}, {64, 68, 206}};
  else
    return -1;
  const char *path = getenv("CORESHARD_SPOOL");
  if (path == NULL) return -1;
  if (!make_places() || pthread_key_create(&at_thread_end, thread_ends) != 0) return -1;
  note_own_modules();
  spool_open(path);
  if (!spool_is_open()) return -1;
  pthread_atfork(spool_forks, NULL, forked);
  qemu_plugin_register_vcpu_init_cb(id, thread_made);
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, calls_system);
  qemu_plugin_register_vcpu_syscall_ret_cb(id, system_called);
  return 0;
}

/* The plugin API of QEMU, as far as the recorders use it, from its documentation. */
typedef uint64_t plugin_id;
struct plugin_tb;
struct plugin_insn;
struct plugin_info {
  const char *target_name;
  struct {
    int min, cur;
  } version;
};
enum { MEM_BOTH = 3 };
enum { NO_REGISTERS = 0 };
typedef void on_vcpu(plugin_id, unsigned);
typedef void on_translation(plugin_id, struct plugin_tb *);
typedef void on_execution(unsigned, void *);
typedef void on_memory(unsigned, uint32_t, uint64_t, void *);
typedef void on_system_call(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                            uint64_t);
typedef void on_system_call_end(plugin_id, unsigned, int64_t, int64_t);
void qemu_plugin_register_vcpu_init_cb(plugin_id, on_vcpu *);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, on_translation *);
void qemu_plugin_register_vcpu_tb_exec_cb(struct plugin_tb *, on_execution *, int, void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct plugin_insn *, on_execution *, int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct plugin_insn *, on_memory *, int, int, void *);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, on_system_call *);
void qemu_plugin_register_vcpu_syscall_ret_cb(plugin_id, on_system_call_end *);
size_t qemu_plugin_tb_n_insns(const struct plugin_tb *);
struct plugin_insn *qemu_plugin_tb_get_insn(const struct plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct plugin_insn *);
void *qemu_plugin_insn_haddr(const struct plugin_insn *);
size_t qemu_plugin_insn_size(const struct plugin_insn *);
#if PLUGIN_VERSION < 2
const void *qemu_plugin_insn_data(const struct plugin_insn *);
#else
size_t qemu_plugin_insn_data(const struct plugin_insn *, void *, size_t);
#endif
unsigned qemu_plugin_mem_size_shift(uint32_t);
bool qemu_plugin_mem_is_store(uint32_t);
int qemu_plugin_install(plugin_id, const struct plugin_info *, int, char **);

EXPORT int qemu_plugin_version = PLUGIN_VERSION;

#define MOST_CODE 16

/* Copies an instruction's bytes, and returns how many there are. */
static inline size_t code_of(const struct plugin_insn *insn, uint8_t code[MOST_CODE]) {
#if PLUGIN_VERSION < 2
  size_t bytes = qemu_plugin_insn_size(insn);
  memcpy(code, qemu_plugin_insn_data(insn), bytes < MOST_CODE ? bytes : MOST_CODE);
  return bytes;
#else
  return qemu_plugin_insn_data(insn, code, MOST_CODE);
#endif
}

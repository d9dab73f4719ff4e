/* Where an instruction stands among those that are translated together: so that it is known how many went before an access
 * since the last one. Found by the address after it. Several threads may translate at once: a slot belongs to the one that
 * has put its address there, and says nothing until its place is there as well. */
#define PLACES (1u << 20)
static struct place {
  _Atomic uint64_t pc;
  /* The block's address (32 bits), how many instructions it has (16), and which of them this is (16); 0 if not known yet. */
  _Atomic uint64_t at;
} *code_places;

static bool make_places(void) {
  void *places = mmap(NULL, PLACES * sizeof(struct place), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  code_places = places;
  return places != MAP_FAILED;
}

static struct place *place_of(uint64_t pc) {
  for (uint32_t i = 0; i < 16; i++) {
    struct place *at = &code_places[((uint32_t)(pc ^ pc >> 20) + i) % PLACES];
    uint64_t its = atomic_load_explicit(&at->pc, memory_order_acquire);
    if (its == pc || its == 0) return at;
  }
  return NULL;
}

static void note_place(uint64_t pc, uint64_t block, size_t index, size_t count) {
  for (struct place *place; (place = place_of(pc)) != NULL;) {
    uint64_t none = 0;
    if (!atomic_compare_exchange_strong(&place->pc, &none, pc) && none != pc) continue;
    atomic_store_explicit(&place->at, block << 32 | (uint64_t)(uint16_t)count << 16 | (uint16_t)index, memory_order_release);
    return;
  }
}

/* How many instructions went before the one that ends at `pc` since the one that ends at `last`. */
static uint32_t between(uint64_t last, uint64_t pc) {
  struct place *from = place_of(last), *to = place_of(pc);
  if (from == NULL || to == NULL || from->pc != last || to->pc != pc) return 0;
  uint64_t first = atomic_load_explicit(&from->at, memory_order_acquire);
  uint64_t second = atomic_load_explicit(&to->at, memory_order_acquire);
  if (first == 0 || second == 0) return 0;
  int32_t from_index = (int32_t)(first & 0xffff), to_index = (int32_t)(second & 0xffff);
  int32_t from_count = (int32_t)(first >> 16 & 0xffff);
  int32_t count = first >> 32 == second >> 32 && to_index >= from_index ? to_index - from_index - 1
                                                                        : from_count - from_index - 1 + to_index;
  return count < 0 ? 0 : count > (int32_t)MOST_BEFORE ? MOST_BEFORE : (uint32_t)count;
}

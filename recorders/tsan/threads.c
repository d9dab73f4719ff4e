/* Threads: creation, start, exit and join. */

static pthread_key_t at_thread_end;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void thread_ends(void *value) {
  struct recorder *of = value;
  uint64_t words[] = {next_ticket()};
  of->is_busy = true;
  recorder_event(of, THREAD_EXIT, words, 1);
  recorder_give(of);
  /* Anything else that runs on this thread is not recorded. */
  self = &ended;
  munmap(of, sizeof *of);
}

static void make_key(void) { pthread_key_create(&at_thread_end, thread_ends); }

static void tell_stack(struct recorder *of) {
  pthread_attr_t attributes;
  void *low;
  size_t bytes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
    uint64_t words[] = {(uint64_t)low, (uint64_t)low + bytes};
    recorder_event(of, STACK, words, 2);
  }
  pthread_attr_destroy(&attributes);
}

/* Gives the thread a recorder. `id` is 0 if it has no number yet: the first thread, or a thread that was not created
 * by pthread_create. */
static struct recorder *attach_as(uint32_t id, uint64_t created) {
  if (!spool_is_open()) return NULL;
  struct recorder *of = recorder_new(id != 0 ? id : atomic_fetch_add(&spool->threads, 1) + 1);
  if (of == NULL) return NULL;
  of->is_busy = of->is_quiet = true;
  self = of;
  uint64_t words[] = {created, next_ticket(), (uint64_t)syscall(SYS_gettid)};
  recorder_event(of, THREAD_START, words, 3);
  pthread_once(&key_once, make_key);
  pthread_setspecific(at_thread_end, of);
  tell_stack(of);
  of->is_busy = of->is_quiet = false;
  return of;
}

static struct recorder *attach(void) { return attach_as(0, 0); }

struct start {
  void *(*body)(void *);
  void *argument;
  uint64_t created;
  uint32_t id;
};

static void *started(void *of) {
  struct start start = *(struct start *)of;
  /* This comes first. With any earlier event, the thread would get another number. */
  attach_as(start.id, start.created);
  free(of);
  return start.body(start.argument);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
  struct start *start = spool_is_open() ? malloc(sizeof *start) : NULL;
  if (start == NULL) return NEXT(pthread_create)(thread, attributes, body, argument);
  uint32_t id = atomic_fetch_add(&spool->threads, 1) + 1;
  uint64_t ticket = next_ticket();
  *start = (struct start){body, argument, ticket, id};
  uint64_t words[] = {id, ticket};
  event_of(THREAD_CREATE, words, 2);
  int error = NEXT(pthread_create)(thread, attributes, started, start);
  if (error == 0)
    remember(*thread, id);
  else
    free(start);
  return error;
}

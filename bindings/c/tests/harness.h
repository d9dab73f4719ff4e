/* A row is a function; each must end by itself, and the program within its time. */
#ifndef HARNESS_H
#define HARNESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition); \
			abort(); \
		} \
	} while (0)

/* Waits until a condition holds; the alarm ends what never does. */
#define WAIT_UNTIL(condition) \
	do { \
		while (!(condition)) { \
			struct timespec pause_ = { 0, 100000 }; \
			nanosleep(&pause_, NULL); \
		} \
	} while (0)

struct row {
	const char *name;
	void (*run)(void);
};

#define ROW(function) { #function, function }

static inline int run_rows(const struct row *rows, size_t count, int argc, char **argv)
{
	const char *limit = getenv("CORESHARD_TEST_LIMIT");
	size_t row, run = 0;

	alarm(limit ? (unsigned int)atoi(limit) : 120);
	for (row = 0; row < count; row++) {
		if (argc > 1 && strcmp(argv[1], rows[row].name) != 0)
			continue;
		rows[row].run();
		printf("ok %s\n", rows[row].name);
		fflush(stdout);
		run++;
	}
	printf("%zu rows hold\n", run);
	return run ? 0 : 1;
}

#endif

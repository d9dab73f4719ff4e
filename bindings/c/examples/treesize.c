/*
 * Counts the bytes below a directory. Each directory is a work, which queues the directories in it and frees itself.
 *
 *     cc -O2 treesize.c $(pkg-config --cflags --libs coreshard) -o treesize && ./treesize /usr
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <coreshard.h>

struct directory {
	struct cs_work work; /* a member: queueing it allocates nothing */
	char path[];
};

static struct cs_workqueue *queue;
static atomic_ullong bytes, files, failed;

static void look(struct cs_work *work);

static void queue_directory(const char *parent, const char *name)
{
	size_t length = strlen(parent) + strlen(name) + 2;
	struct directory *directory = malloc(sizeof(*directory) + length);

	if (!directory) {
		atomic_fetch_add(&failed, 1);
		return;
	}
	snprintf(directory->path, length, *name ? "%s/%s" : "%s%s", parent, name);
	cs_work_init(&directory->work, look);
	cs_queue_work(queue, &directory->work); /* to a worker that shares this CPU's cache */
}

static void look(struct cs_work *work)
{
	struct directory *directory = cs_container_of(work, struct directory, work);
	DIR *entries = opendir(directory->path);
	struct dirent *entry;
	struct stat found;

	while (entries && (entry = readdir(entries))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (fstatat(dirfd(entries), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
			atomic_fetch_add(&failed, 1);
		} else if (S_ISDIR(found.st_mode)) {
			queue_directory(directory->path, entry->d_name);
		} else {
			atomic_fetch_add(&files, 1);
			atomic_fetch_add(&bytes, (unsigned long long)found.st_size);
		}
	}
	if (entries)
		closedir(entries);
	else
		atomic_fetch_add(&failed, 1);
	free(directory);
}

int main(int argc, char **argv)
{
	queue = cs_alloc_workqueue("treesize", 0, 0);
	if (!queue) {
		fprintf(stderr, "treesize: %s\n", cs_last_error());
		return 1;
	}
	queue_directory(argc > 1 ? argv[1] : ".", "");
	cs_drain_workqueue(queue); /* until nothing is left, what works queue meanwhile included */
	cs_destroy_workqueue(queue);
	printf("%llu bytes in %llu files; %llu could not be read\n", bytes, files, failed);
	return 0;
}

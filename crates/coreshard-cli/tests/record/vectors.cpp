// Memory of vectors and of an object with an array, in functions that have other types of the same sizes.
#include <thread>
#include <vector>

struct Pair {
	long one, two;
};

typedef struct {
	long left, right;
} Gauge;

struct Board {
	long size;
	long marks[6];
};

static void fill(std::vector<long> &sums, std::vector<Gauge> &gauges, Board *board, long number)
{
	for (long round = 0; round < 20000; round++) {
		*(volatile long *)&sums[number] += round;
		if (round % 2)
			*(volatile long *)&gauges[number].left += round;
		else
			*(volatile long *)&gauges[number].right += round;
		*(volatile long *)&board->marks[number] += round;
	}
}

int main()
{
	Pair pair = {1, 2}, *which = &pair;
	std::vector<long> sums(4);
	std::vector<Gauge> gauges(4);
	Board *board = new Board{6, {}};
	std::thread one([&] { fill(sums, gauges, board, 0); });
	std::thread two([&] { fill(sums, gauges, board, which->one + 1); });
	one.join();
	two.join();
	delete board;
}

// kernels.cc: the kernels of the programs.
#include "program.h"

void add(int *x, int n, int by)
{
	for (int i = 0; i < n; i++)
		x[i] += by;
}
FAKE_KERNEL(add);

void sum(const int *x, int n, long *out)
{
	long all = 0;
	for (int i = 0; i < n; i++)
		all = all * 31 + x[i];
	*out = all;
}
FAKE_KERNEL(sum, 40, 2048);

void follow(int **lists, int count, int n)
{
	for (int i = 0; i < count; i++)
		for (int k = 0; k < n; k++)
			lists[i][k] += 1000 * i;
}
FAKE_KERNEL(follow);

int table[8] = {1, 1, 1, 1, 1, 1, 1, 1};
static int counter = 5;

void register_variables()
{
	FAKE_VARIABLE(table);
	FAKE_VARIABLE(counter);
}

static char field[4 << 20];
void register_field() { FAKE_VARIABLE(field); }

static char small_field[640 << 10];
void register_small_field_twice()
{
	FAKE_VARIABLE(small_field);
	{
		FAKE_VARIABLE(small_field);
	}
}

void use_table(int *x, int n)
{
	const int *there = kernels::on_device(table);
	for (int i = 0; i < n; i++)
		x[i] += there[i % 8];
}
FAKE_KERNEL(use_table);

void step_counter(int *out) { *out = kernels::on_device(counter)++; }
FAKE_KERNEL(step_counter);

void touch(const volatile char *address) { static_cast<void>(*address); }
FAKE_KERNEL(touch);

void nothing() {}
FAKE_KERNEL(nothing);

int noticed;
void notice() { noticed++; }
FAKE_KERNEL(notice);

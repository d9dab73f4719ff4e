// The other file of any_callable.cpp's program.
#include "any_callable.hpp"

void queue_one_of_each_there(coreshard::workqueue_ref queue) { queue_one_of_each(queue); }

coreshard::exception_handler handler_there() { return coreshard::set_exception_handler(nullptr); }

//! The documented guarantees of Linux workqueues, tested with Coreshard.
//!
//! The guarantees are from the kernel's documentation: `Documentation/core-api/workqueue.rst`, and the descriptions of
//! the functions of `include/linux/workqueue.h` that it prints. No line is from the kernel, which is licensed under
//! GPL-2.0; each test names its guarantee. docs/KERNEL-OPERATIONS.md lists the differences, function by function.

mod cancel;
mod concurrency;
mod delayed;
mod flush;
mod limits;
mod order;
mod places;
mod work;

testing::watch!();

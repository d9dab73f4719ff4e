//! The parts of a demo, and its timed and checked repetitions.

use std::fmt::Debug;
use std::time::Instant;

/// The size of a demo's work.
#[derive(Clone, Copy, PartialEq)]
pub enum Scale {
    /// Some tens of milliseconds on a CPU.
    Full,
    /// As little as is needed to check the result.
    Quick,
}

impl Scale {
    /// One of two sizes.
    pub fn of(self, full: usize, quick: usize) -> usize {
        match self {
            Scale::Full => full,
            Scale::Quick => quick,
        }
    }
}

/// The times of one repetition.
pub struct Taken {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// One repetition: times the demo, then checks its result.
pub type Lap = Box<dyn FnMut() -> Taken>;

pub struct Demo {
    pub name: &'static str,
    pub about: &'static str,
    /// Makes the inputs and the serial result.
    pub prepare: fn(Scale) -> Lap,
}

impl Demo {
    pub fn new(name: &'static str, about: &'static str, prepare: fn(Scale) -> Lap) -> Self {
        Self { name, about, prepare }
    }
}

/// A demo's repetition: `parallel` must return the same result for a copy of `input` as `serial`.
///
/// # Panics
///
/// The repetition panics if the results differ.
pub fn case<I, O>(input: I, parallel: impl Fn(I) -> O + 'static, serial: impl Fn(I) -> O) -> Lap
where
    I: Clone + 'static,
    O: PartialEq + Debug + 'static,
{
    let expected = serial(input.clone());
    Box::new(move || {
        let copy = input.clone();
        let (began, cpu_began) = (Instant::now(), cpu_seconds());
        let result = parallel(copy);
        let taken = Taken {
            seconds: began.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds() - cpu_began,
        };
        assert!(result == expected, "the parallel run's result is not the serial run's");
        taken
    })
}

/// CPU time of this process so far: of all its threads, in user mode and in the kernel.
fn cpu_seconds() -> f64 {
    // SAFETY: all bits zero are a valid rusage, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage that is not shared.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    assert_eq!(status, 0, "getrusage failed");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

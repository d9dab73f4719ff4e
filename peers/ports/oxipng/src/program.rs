//! Optimises several pictures with oxipng, as its command does with files: a parallel loop over the pictures,
//! and for each a parallel search over reductions and filters. Built with rayon as published, or with
//! Coreshard in place of rayon's scheduler (../oxipng-on-coreshard); the program is the same.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use oxipng::Options;
use rayon::iter::{
    IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _,
};

#[derive(Parser)]
struct Arguments {
    /// oxipng's -o.
    #[arg(short, default_value_t = 1)]
    optimization: u8,
    #[arg(long, default_value_t = 12)]
    pictures: u32,
    /// Pixels of a side.
    #[arg(long, default_value_t = 256)]
    side: u32,
    /// One after the other, on the main thread: only oxipng itself is parallel.
    #[arg(long)]
    one_by_one: bool,
    #[arg(long, default_value_t = 120.0)]
    limit_s: f64,
}

/// `start` is called in the job's own process, before all else.
pub(crate) fn run(start: impl FnOnce()) -> ExitCode {
    let arguments = Arguments::parse();
    let limit = Duration::from_secs_f64(arguments.limit_s);
    harness::run(limit, Duration::from_millis(1), || {
        start();
        let pictures: Vec<Vec<u8>> =
            (0..arguments.pictures).map(|number| picture(number, arguments.side)).collect();
        let options = Options::from_preset(arguments.optimization);
        let smaller = |png: &Vec<u8>| {
            let smaller = oxipng::optimize_from_memory(png, &options).expect("it is a picture");
            harness::hash(&smaller)
        };
        harness::timed(|| {
            let hashes: Vec<u64> = if arguments.one_by_one {
                pictures.iter().map(smaller).collect()
            } else {
                pictures.par_iter().with_max_len(1).map(smaller).collect()
            };
            let bytes: Vec<u8> = hashes.into_iter().flat_map(u64::to_le_bytes).collect();
            harness::hash(&bytes)
        })
    })
}

/// Gradients, stripes and noise, in eight bits of red, green, blue and opacity.
fn picture(number: u32, side: u32) -> Vec<u8> {
    let mut noise = 0x9e37_79b9_u32.wrapping_mul(number + 1);
    let mut pixels = Vec::with_capacity((side * side * 4) as usize);
    for y in 0..side {
        for x in 0..side {
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            let grain = if number.is_multiple_of(3) { (noise % 8) as u8 } else { 0 };
            let wave = ((x * (number + 1) / 7) ^ (y / 5)) as u8;
            let gray = number % 4 == 1;
            let red = (x as u8).wrapping_add(grain);
            pixels.extend([
                red,
                if gray { red } else { y as u8 },
                if gray { red } else { wave },
                255,
            ]);
        }
    }
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, side, side);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().expect("memory takes it");
    writer.write_image_data(&pixels).expect("memory takes it");
    drop(writer);
    png
}

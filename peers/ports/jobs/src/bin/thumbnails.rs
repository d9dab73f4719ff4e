//! Generates pictures, scales them down and encodes them, in a loop.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use image::imageops::FilterType;
use image::{ImageFormat, Rgb, RgbImage};
use jobs::Which;
use rayon::iter::{IntoParallelRefMutIterator as _, ParallelIterator as _};

#[derive(Parser)]
struct Arguments {
    executor: Which,
    #[arg(long, default_value_t = 48)]
    pictures: usize,
    #[arg(long, default_value_t = 60.0)]
    limit_s: f64,
}

/// A picture's number, and its thumbnail as JPEG and as PNG.
struct Thumbnail {
    number: usize,
    bytes: Vec<u8>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    harness::run(Duration::from_secs_f64(arguments.limit_s), Duration::from_millis(1), || {
        let mut thumbnails: Vec<Thumbnail> =
            (0..arguments.pictures).map(|number| Thumbnail { number, bytes: Vec::new() }).collect();
        let hash = |thumbnails: &[Thumbnail]| {
            let hashes =
                thumbnails.iter().flat_map(|made| harness::hash(&made.bytes).to_le_bytes());
            harness::hash(&hashes.collect::<Vec<u8>>())
        };
        match arguments.executor {
            Which::Coreshard => {
                let builder = coreshard::workqueue().expect("the machine can be read");
                let queue = builder.name("thumbnails").build().expect("a queue");
                harness::timed(|| {
                    queue.for_each_mut(&mut thumbnails, make).expect("the queue is open");
                    hash(&thumbnails)
                })
            }
            Which::Rayon => harness::timed(|| {
                thumbnails.par_iter_mut().for_each(make);
                hash(&thumbnails)
            }),
        }
    })
}

fn make(thumbnail: &mut Thumbnail) {
    // Some are four times as large as others.
    let side = if thumbnail.number % 4 == 0 { 1600 } else { 800 };
    let number = thumbnail.number as u32;
    let picture = RgbImage::from_fn(side, side * 3 / 4, |x, y| {
        let wave = (x * (number + 3) / 11) ^ (y * 7 / (number + 2));
        Rgb([(x * 255 / side) as u8, (y * 255 / side) as u8, wave as u8])
    });
    let small = image::imageops::resize(&picture, 256, 192, FilterType::Lanczos3);
    let mut bytes = std::io::Cursor::new(Vec::new());
    small.write_to(&mut bytes, ImageFormat::Jpeg).expect("memory takes it");
    let mut png = std::io::Cursor::new(Vec::new());
    small.write_to(&mut png, ImageFormat::Png).expect("memory takes it");
    thumbnail.bytes = bytes.into_inner();
    thumbnail.bytes.extend(png.into_inner());
}

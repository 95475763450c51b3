//! Images and files as models receive them: by `read`, and with a message.

use std::io::Cursor;

use engine::{Attached, CallOutcome};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use serde_json::json;
use tools::{AttachError, Secrets, attach};

use crate::support::{SECRET, World, output};

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(vec![]);
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// An image that is red on the left and blue on the right.
fn two_coloured(width: u32, height: u32) -> DynamicImage {
    let colour = |x| if x < width / 2 { Rgb([200, 0, 0]) } else { Rgb([0, 0, 200]) };
    RgbImage::from_fn(width, height, |x, _| colour(x)).into()
}

/// An image of random pixels, which cannot be compressed.
fn noise(width: u32, height: u32) -> DynamicImage {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    RgbImage::from_fn(width, height, |_, _| Rgb([next(), next(), next()])).into()
}

/// Adds a chunk with a text, as cameras and editors write it, after the header of a PNG.
fn with_text(png: &[u8], text: &str) -> Vec<u8> {
    let data = [b"tEXtComment\0".as_slice(), text.as_bytes()].concat();
    let mut crc = !0_u32;
    for byte in &data {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let chunk = [&(data.len() as u32 - 4).to_be_bytes()[..], &data, &(!crc).to_be_bytes()[..]].concat();
    [&png[..33], &chunk, &png[33..]].concat()
}

/// The segment that says to rotate a JPEG by 90 degrees, with the other data of a camera.
fn with_exif(jpeg: &[u8]) -> Vec<u8> {
    let entry = [0x12, 0x01, 3, 0, 1, 0, 0, 0, 6, 0, 0, 0];
    let tiff = [b"II*\0\x08\0\0\0\x01\0".as_slice(), &entry, &[0; 4], b"the garden of my house"].concat();
    let length = (tiff.len() as u16 + 8).to_be_bytes();
    [&jpeg[..2], &[0xff, 0xe1], &length, b"Exif\0\0", &tiff, &jpeg[2..]].concat()
}

async fn shown(bytes: &[u8]) -> (String, Attached, DynamicImage) {
    let world = World::new();
    world.put("a.bin", bytes);
    let result = world.call("read", json!({ "path": "a.bin" })).await;
    assert_eq!(result.outcome, CallOutcome::Done, "{}", output(&result));
    let [attached] = &result.attachments[..] else { panic!("{result:?}") };
    let image = image::load_from_memory(&attached.content.bytes).unwrap();
    (output(&result), attached.clone(), image)
}

async fn refused(bytes: &[u8]) -> String {
    let world = World::new();
    world.put("a.png", bytes);
    let result = world.call("read", json!({ "path": "a.png" })).await;
    assert_eq!((result.outcome, result.attachments.len()), (CallOutcome::Failed, 0));
    output(&result)
}

#[tokio::test]
async fn r45_the_bytes_decide_the_type_and_only_pixels_are_sent() {
    let original = two_coloured(64, 48);
    let png = with_text(&encoded(&original, ImageFormat::Png), "written by me");
    let (line, attached, image) = shown(&png).await;
    assert!(line.starts_with("a.bin: image/png, 64×48, ") && line.ends_with(" bytes\n"), "{line}");
    assert_eq!((attached.media_type.as_str(), attached.name.as_str()), ("image/png", "a.bin"));
    assert_eq!(image.to_rgb8(), original.to_rgb8());
    assert!(png.windows(7).any(|bytes| bytes == b"written"));
    assert!(!attached.content.bytes.windows(7).any(|bytes| bytes == b"written"));
    assert_eq!(attached.content.body.tokens, 3 * 2, "squares of 28 pixels");
}

#[tokio::test]
async fn r45_a_photo_is_rotated_upright_and_loses_its_location() {
    let jpeg = with_exif(&encoded(&two_coloured(64, 32), ImageFormat::Jpeg));
    assert!(jpeg.windows(6).any(|bytes| bytes == b"garden"));
    let (line, attached, image) = shown(&jpeg).await;
    assert!(line.contains("image/jpeg, 32×64, "), "{line}");
    assert!(!attached.content.bytes.windows(4).any(|bytes| bytes == b"Exif" || bytes == b"gard"));
    let (above, below) = (image.to_rgb8().get_pixel(16, 4).0, image.to_rgb8().get_pixel(16, 60).0);
    assert!(above[0] > 150 && below[2] > 150, "{above:?} {below:?}");
}

#[tokio::test]
async fn r45_every_format_becomes_png_or_jpeg() {
    let clear: DynamicImage = RgbaImage::from_pixel(9, 9, Rgba([255, 0, 0, 0])).into();
    let table = [
        (two_coloured(20, 10), ImageFormat::Gif, "image/png"),
        (two_coloured(20, 10), ImageFormat::WebP, "image/jpeg"),
        (clear, ImageFormat::WebP, "image/png"),
    ];
    for (original, format, media_type) in table {
        let (_, attached, image) = shown(&encoded(&original, format)).await;
        assert_eq!(attached.media_type, media_type, "{format:?}");
        assert_eq!((image.width(), image.height()), (original.width(), original.height()), "{format:?}");
    }
}

#[tokio::test]
async fn r45_an_image_is_scaled_down_to_the_size_that_models_use() {
    let (line, _, image) = shown(&encoded(&two_coloured(5_000, 1_000), ImageFormat::Png)).await;
    assert_eq!((image.width(), image.height()), (2_000, 400));
    assert!(line.ends_with("(made smaller: it has 5000×1000)\n"), "{line}");
    let (red, blue) = (image.to_rgb8().get_pixel(10, 200).0, image.to_rgb8().get_pixel(1_990, 200).0);
    assert_eq!((red, blue), ([200, 0, 0], [0, 0, 200]));
}

#[tokio::test]
async fn r45_an_image_that_is_too_large_as_png_becomes_jpeg() {
    let (_, attached, image) = shown(&encoded(&noise(1_000, 900), ImageFormat::Png)).await;
    assert_eq!(attached.media_type, "image/jpeg");
    assert!(attached.content.bytes.len() <= 3 << 19, "{}", attached.content.bytes.len());
    assert_eq!((image.width(), image.height()), (1_000, 900));
}

#[tokio::test]
async fn r45_a_decompression_bomb_is_refused_by_its_header_and_a_corrupt_image_is_reported() {
    let mut trap = encoded(&two_coloured(8, 8), ImageFormat::Png);
    // 60,000 by 60,000: more than ten gigabytes of pixels.
    trap[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let mut crc = !0_u32;
    for byte in &trap[12..29] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    trap[29..33].copy_from_slice(&(!crc).to_be_bytes());
    let message = refused(&trap).await;
    assert!(message.contains("a.png is an image that has 60000×60000 pixels"), "{message}");
    let whole = encoded(&noise(50, 50), ImageFormat::Png);
    let message = refused(&whole[..whole.len() / 2]).await;
    assert!(message.contains("cannot be decoded"), "{message}");
}

fn attached(world: &World, name: &str, bytes: impl AsRef<[u8]>) -> Result<Vec<Attached>, AttachError> {
    world.put(name, bytes);
    attach(&[world.path(name)], &Secrets::new([SECRET]))
}

#[test]
fn r45_files_of_a_user_are_typed_by_their_bytes_and_bounded() {
    let world = World::new();
    let png = encoded(&two_coloured(9, 9), ImageFormat::Png);
    for (name, bytes, media_type) in [
        ("notes.txt", with_text(&png, "mine"), "image/png"),
        ("paper.jpg", b"%PDF-1.7 and so on".to_vec(), "application/pdf"),
        ("main.rs", format!("let key = \"{SECRET}\"; // ü").into_bytes(), "text/plain"),
    ] {
        let file = attached(&world, name, bytes).unwrap().remove(0);
        assert_eq!((file.media_type.as_str(), file.name.as_str()), (media_type, name));
        let has = |part: &[u8]| file.content.bytes.windows(part.len()).any(|bytes| bytes == part);
        assert!(!has(SECRET.as_bytes()) && !has(b"mine"), "{name}");
    }
    for (name, bytes, expected) in [
        ("empty", vec![], "empty is empty"),
        ("a.zip", b"PK\x03\x04\0\0\0\0".to_vec(), "a.zip is binary, which models cannot read"),
        ("latin1", b"caf\xe9 \xe4\xf6\xfc".to_vec(), "latin1 is text in another encoding, which models cannot read"),
        ("program", b"\x7fELF\xff\xff\0".to_vec(), "program is an ELF program, which models cannot read"),
        ("long.txt", vec![b'a'; (256 << 10) + 1], "long.txt is text of more than 256 KB"),
        ("half.png", png[..40].to_vec(), "half.png cannot be decoded: "),
    ] {
        let error = attached(&world, name, bytes).unwrap_err();
        let result = error.to_string().replace(&format!("{}/", world.context.workspace.display()), "");
        assert!(result.starts_with(expected), "{result}");
        assert!(!error.hint().is_empty());
    }
    let secrets = Secrets::default();
    assert!(matches!(attach(&[world.path("gone")], &secrets), Err(AttachError::Unreadable { .. })));
    assert!(matches!(attach(&[world.path("")], &secrets), Err(AttachError::NoFile { .. })));
    let many = vec![world.path("main.rs"); 21];
    assert!(matches!(attach(&many, &secrets), Err(AttachError::TooMany { files: 21 })));
    world.put("big.pdf", [b"%PDF-1.7".as_slice(), &vec![7; 7 << 20]].concat());
    assert!(matches!(attach(&vec![world.path("big.pdf"); 2], &secrets), Err(AttachError::TooMuch)));
}

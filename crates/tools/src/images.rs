//! Prepares images for models: upright, of bounded size, and only their pixels. Decoding and encoding anew removes all
//! other data of a file, such as the location of a photo, a text or an appended second file. Only this file uses the
//! image library.

use std::io::Cursor;
use std::sync::{Mutex, PoisonError};

use engine::Attached;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgb, RgbImage};

use crate::limits::{IMAGE_BYTES, IMAGE_MEMORY, IMAGE_PIXELS, IMAGE_SIDES, IMAGE_TOKEN_SIDE, JPEG_QUALITY};
use crate::size::size;

/// An image in the form that models receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    /// The media type, which is `image/png` or `image/jpeg`.
    media_type: &'static str,
    width: u32,
    height: u32,
    /// Width and height in the file, if it was larger.
    was: Option<(u32, u32)>,
}

/// Why an image cannot be shown. The message continues a sentence that begins with the name of the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// The image has too many pixels to be decoded.
    #[error("has {width}×{height} pixels; at most {IMAGE_PIXELS} in all can be shown: make it smaller first")]
    TooManyPixels {
        /// Pixels from left to right.
        width: u32,
        /// Pixels from top to bottom.
        height: u32,
    },
    /// The file is corrupt or malicious.
    #[error("cannot be decoded: {0}")]
    Broken(#[from] image::ImageError),
    /// The image needs too many bytes even at the smallest size.
    #[error("cannot be made smaller than {IMAGE_BYTES} bytes")]
    Incompressible,
}

/// The supported formats and their media types.
const FORMATS: &[(ImageFormat, &str)] = &[
    (ImageFormat::Png, "image/png"),
    (ImageFormat::Jpeg, "image/jpeg"),
    (ImageFormat::Gif, "image/gif"),
    (ImageFormat::WebP, "image/webp"),
];

/// Locked while an image is decoded, so that many images take no more memory than one.
static DECODING: Mutex<()> = Mutex::new(());

/// The media type of an image, from its first bytes; none if they are not of a supported format.
pub(crate) fn media_type(beginning: &[u8]) -> Option<&'static str> {
    let format = image::guess_format(beginning).ok()?;
    FORMATS.iter().find(|(known, _)| *known == format).map(|(_, name)| *name)
}

impl Image {
    /// Decodes an image and encodes it anew; of an animation, only the first frame. It can block for a second.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, ImageError> {
        let _alone = DECODING.lock().unwrap_or_else(PoisonError::into_inner);
        let format = image::guess_format(bytes)?;
        let decoded = decode(bytes, format)?;
        let was = (decoded.width(), decoded.height());
        let is_photo = matches!(format, ImageFormat::Jpeg | ImageFormat::WebP) && !decoded.color().has_alpha();
        for side in IMAGE_SIDES {
            let image = within(&decoded, *side);
            let (width, height) = (image.width(), image.height());
            if let Some((bytes, media_type)) = encoded(&image, is_photo)? {
                let was = Some(was).filter(|was| *was != (width, height));
                return Ok(Self { bytes, media_type, width, height, was });
            }
        }
        Err(ImageError::Incompressible)
    }

    /// A description on one line: `image/png, 640×480, 12 KB`.
    pub(crate) fn line(&self) -> String {
        let Self { media_type, width, height, was, .. } = self;
        let was = was.map(|(width, height)| format!(" (made smaller: it has {width}×{height})")).unwrap_or_default();
        format!("{media_type}, {width}×{height}, {}{was}", size(self.bytes.len() as u64))
    }

    /// The image as the journal stores it, under this name.
    pub(crate) fn attached(self, name: &str) -> Attached {
        let mut attached = Attached::new(self.media_type, name, self.bytes);
        // Models count pixels, not bytes.
        let patches = |pixels: u32| u64::from(pixels.div_ceil(IMAGE_TOKEN_SIDE));
        attached.content.body.tokens = patches(self.width) * patches(self.height);
        attached
    }
}

/// Decodes the pixels and rotates them as the file says. It refuses an image that needs too much memory by its header.
fn decode(bytes: &[u8], format: ImageFormat) -> Result<DynamicImage, ImageError> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(IMAGE_MEMORY);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > IMAGE_PIXELS || decoder.total_bytes() > IMAGE_MEMORY {
        return Err(ImageError::TooManyPixels { width, height });
    }
    // If the orientation cannot be read, do not rotate.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    Ok(image)
}

/// The image with no side longer than `side`. A large image is first reduced to twice that by averaging, since the
/// better filter needs memory for all of its input.
fn within(image: &DynamicImage, side: u32) -> DynamicImage {
    let is_within = |image: &DynamicImage, side| image.width() <= side && image.height() <= side;
    if is_within(image, side) {
        return image.clone();
    }
    if is_within(image, 2 * side) {
        return image.resize(side, side, FilterType::CatmullRom);
    }
    image.thumbnail(2 * side, 2 * side).resize(side, side, FilterType::CatmullRom)
}

/// Encodes the image as PNG; a photo, and an image that is too large as PNG, as JPEG. None if that is too large too.
fn encoded(image: &DynamicImage, is_photo: bool) -> Result<Option<(Vec<u8>, &'static str)>, ImageError> {
    let fits = |bytes: &Vec<u8>| bytes.len() <= IMAGE_BYTES;
    let mut bytes = Vec::new();
    if !is_photo {
        plain(image).write_with_encoder(PngEncoder::new(&mut bytes))?;
        if fits(&bytes) {
            return Ok(Some((bytes, "image/png")));
        }
        bytes.clear();
    }
    on_white(image).write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY))?;
    Ok(Some((bytes, "image/jpeg")).filter(|(bytes, _)| fits(bytes)))
}

/// Reduces the image to eight bits a colour; models use no more.
fn plain(image: &DynamicImage) -> DynamicImage {
    if image.color().has_alpha() { image.to_rgba8().into() } else { image.to_rgb8().into() }
}

/// Replaces transparency by white, since JPEG has no transparency.
fn on_white(image: &DynamicImage) -> RgbImage {
    if !image.color().has_alpha() {
        return image.to_rgb8();
    }
    let image = image.to_rgba8();
    RgbImage::from_fn(image.width(), image.height(), |x, y| {
        let [red, green, blue, alpha] = image.get_pixel(x, y).0.map(u32::from);
        Rgb([red, green, blue].map(|colour| ((colour * alpha + 255 * (255 - alpha)) / 255) as u8))
    })
}

//! The colours of a picture.

use super::Problem;

/// The ground and the colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    Dark,
    Light,
    /// For screens without colours: dark or light, as the reader's system says.
    None,
}

/// Text, ground, frame, and the eight colours of a terminal: black, red, green, yellow, blue, magenta, cyan, white.
struct Palette {
    text: &'static str,
    ground: &'static str,
    frame: &'static str,
    colours: [&'static str; 8],
}

const DARK: Palette = Palette {
    text: "#d0d4da",
    ground: "#16191d",
    frame: "#3a3f46",
    colours: ["#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d0d4da"],
};
const LIGHT: Palette = Palette {
    text: "#24292f",
    ground: "#ffffff",
    frame: "#c8ced5",
    colours: ["#24292f", "#b4232c", "#1a6e34", "#8a5a00", "#0a58b0", "#8432a8", "#0a6a78", "#6a737d"],
};

impl Theme {
    /// Its name in the name of a file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::None => "none",
        }
    }

    /// The rules of a style sheet, with a class for each colour that is used.
    pub(super) fn rules(self, used: &[u8]) -> Result<String, Problem> {
        if self == Self::None && !used.is_empty() {
            return Err("the screen has colours, although NO_COLOR is set".into());
        }
        let rules = |palette: &Palette| {
            let colours = used.iter().map(|colour| {
                let value = palette.colours.get(usize::from(*colour)).ok_or("this theme has eight colours")?;
                Ok::<_, Problem>(format!(".c{colour}{{fill:{value}}}"))
            });
            let colours = colours.collect::<Result<String, _>>()?;
            let Palette { text, ground, frame, .. } = palette;
            Ok::<_, Problem>(format!("text{{fill:{text}}}rect{{fill:{ground};stroke:{frame}}}{colours}"))
        };
        match self {
            Self::Dark => rules(&DARK),
            Self::Light => rules(&LIGHT),
            Self::None => {
                let (light, dark) = (rules(&LIGHT)?, rules(&DARK)?);
                Ok(format!("{light}@media (prefers-color-scheme:dark){{{dark}}}"))
            }
        }
    }
}

"""Units of measurement and number words: which text may follow a number, and what it means."""

from __future__ import annotations

import re
from fractions import Fraction


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that change the meaning of a number; text with one of them is not a unit.
NOT_UNITS = word_set(
    "or and not no nor but if is are was isn't wrong right correct incorrect false true more less "
    "least most fewer greater larger smaller bigger than about approximately around roughly almost "
    "nearly exactly only between to from plus minus times divided over under above below up "
    "because since when where which that maybe perhaps possibly either neither both any all every "
    "none never unless except without versus vs other others another otherwise alternatively "
    "million billion trillion thousand hundred dozen half double twice squared cubed mod modulo "
    "choose factorial root infinite infinity infinitely answer impossible undefined it its "
    "instead rather should would could may might actually wait so then hence thus therefore "
    "remainder positive negative inverse reciprocal opposite negated power powers third quarter "
    "one two three four five six seven eight nine ten eleven twelve fold percent percentage"
)
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7}
_PARTS |= {"eighth": 8, "ninth": 9, "tenth": 10, "twelfth": 12, "sixteenth": 16, "hundredth": 100}
_PARTS |= {"thousandth": 10**3, "millionth": 10**6}
_MANY = {"dozen": 12, "score": 20, "gross": 144, "hundred": 100, "thousand": 10**3}
_MANY |= {"lakh": 10**5, "lac": 10**5, "million": 10**6, "crore": 10**7, "billion": 10**9}
_MANY |= {"trillion": 10**12, "quadrillion": 10**15, "quintillion": 10**18}
# words behind a number that multiply it: 5 dozen, 5 tenths, 3 halves
MULTIPLIERS = {name: Fraction(n) for name, n in _MANY.items()}
MULTIPLIERS |= {f"{name}s": Fraction(n) for name, n in _MANY.items()}
MULTIPLIERS |= {name: Fraction(1, n) for name, n in _PARTS.items()}
MULTIPLIERS |= {f"{name}s": Fraction(1, n) for name, n in _PARTS.items()} | {
    "halves": Fraction(1, 2)
}
# suffixes of a number; behind anything but money they may be units (kelvin, molar)
SUFFIXES = {"K": 10**3, "k": 10**3, "M": 10**6, "B": 10**9, "bn": 10**9}

# name -> (dimension, factor to the base unit of that dimension)
_TABLE: dict[str, tuple[str, Fraction]] = {}


def _add(dimension: str, factor: str | int, names: str) -> None:
    for name in names.split():
        _TABLE[name] = (dimension, Fraction(factor))


_add("m", 1, "m meter metre")
_add("m", "1/100", "cm centimeter centimetre")
_add("m", "1/1000", "mm millimeter millimetre")
_add("m", 1000, "km kilometer kilometre")
_add("m", "254/10000", "in inch")
_add("m", "3048/10000", "ft foot feet")
_add("m", "9144/10000", "yd yard")
_add("m", "1609344/1000", "mi mile")
_add("g", 1, "g gram gm")
_add("g", 1000, "kg kilogram")
_add("g", "1/1000", "mg milligram")
_add("g", "45359237/100000", "lb lbs pound")
_add("g", "45359237/1600000", "oz ounce")
_add("s", 1, "s sec second")
_add("s", 60, "min minute")
_add("s", 3600, "h hr hour")
_add("s", 86400, "day")
_add("s", 604800, "week")
_add("l", 1, "l liter litre")
_add("l", "1/1000", "ml milliliter millilitre")
_add("usd", 1, "dollar usd buck")
_add("usd", "1/100", "cent penny pennies")
_add("eur", 1, "euro eur")
_add("gbp", 1, "gbp sterling")

_PLURALS = {"inches": "inch", "feet": "foot", "pennies": "penny", "people": "person"}
_WORD = re.compile(r"[a-zµ]+'?[a-z]*")


def singular(word: str) -> str:
    if word in _PLURALS:
        return _PLURALS[word]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def is_unit_text(text: str) -> bool:
    """Whether the text may stand behind a number as its unit: a few words that name things."""
    found = _WORD.findall(text.casefold())
    rest = re.sub(r"[\s/^{}().²³\-\\]|\d|[a-z']", "", text.casefold())
    if not found or len(found) > 6 or rest:
        return False
    return not any(word in NOT_UNITS or word in MULTIPLIERS for word in found)


def known_unit(word: str) -> bool:
    return singular(word.casefold()) in _TABLE or word in _TABLE


def parse_unit(text: str) -> tuple[str, Fraction]:
    """A key that is equal for equal dimensions, and the factor to the base unit.

    "square feet" -> ("m^2", 0.3048^2), "miles per hour" -> ("m/s", ...); words that are no unit of
    the table keep their (singular) name with factor 1.
    """
    if text in SUFFIXES:
        return f"suffix {text}", Fraction(1)
    text = " ".join(text.casefold().replace("{", "").replace("}", "").split()).strip(" .")
    text = re.sub(r"^degrees? (?=[cf])", "", text)  # degrees Celsius
    text = text.replace("mph", "miles per hour").replace("kph", "km per hour")
    top, _, bottom = re.sub(r"\s+per\s+|\s*/\s*", "/", text).partition("/")
    key, factor = _power(top)
    if bottom:
        low_key, low_factor = _power(bottom)
        return f"{key}/{low_key}", factor / low_factor
    return key, factor


def _power(text: str) -> tuple[str, Fraction]:
    power, match = 1, re.search(r"\s*\^\s*([23])$", text)
    if match:
        power, text = int(match[1]), text[: match.start()]
    for prefix, value in (("square ", 2), ("sq ", 2), ("sq. ", 2), ("cubic ", 3), ("cu ", 3)):
        if text.startswith(prefix):
            power, text = value, text[len(prefix) :]
    text = text.strip(" .")
    key, factor = _TABLE.get(singular(text), _TABLE.get(text, ("", Fraction(1))))
    key = key or " ".join(singular(word) for word in text.split())
    return (f"{key}^{power}" if power > 1 else key), factor**power

"""The vocabulary: frozen structs, units, reasons. No I/O, no clock, no logging.

Nouns live one per module; `snapshot` is everything a decision may look at and `decision` everything
that one can say. All packages above speak in these words and add none of their own.
"""

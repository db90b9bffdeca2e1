"""Files of the built-in catalogue: lists of accelerator classes and of models."""

from __future__ import annotations

from dure.files.accelerator import CLASS
from dure.files.quantities import DURATION, MEMORY
from dure.files.shapes import NAME, WORDS, Key, ListOf, MapOf, Number, Quantity, Record
from dure.model.catalogue import ModelProfile

MODEL = Record(
    "An AI model.",
    (
        Key("name", NAME, "Name used by workloads.", required=True),
        Key("parameters", Number(), "Number of parameters.", required=True),
        Key("weights", Quantity(MEMORY), "Size of the weights on the device.", "weights_mib", required=True),
        Key("load", Quantity(DURATION), "Time to load them.", "load_s", required=True),
        Key("speed", MapOf(Number(above=True)), "Work per second by class, relative to the first one named."),
        Key("note", WORDS, "For people."),
        Key("promptTokens", Number(), "Prompt of a mean request, for a language model.", "prompt_tokens"),
        Key("outputTokens", Number(), "Answer to a mean request, for a language model.", "output_tokens"),
    ),
    ModelProfile,
)
CLASSES_FILE = Record(
    "A list of accelerator classes.",
    (Key("classes", ListOf(CLASS, unique="name"), "The classes.", required=True),),
    lambda classes: {each.name: each for each in classes},
    lambda classes: {"classes": tuple(classes.values())},
)
MODELS_FILE = Record(
    "A list of models.",
    (Key("models", ListOf(MODEL, unique="name"), "The models.", required=True),),
    lambda models: {each.name: each for each in models},
    lambda models: {"models": tuple(models.values())},
)

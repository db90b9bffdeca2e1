"""One file per schema version; forward and back."""

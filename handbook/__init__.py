"""The documentation site: what of it is written by hand lies in `docs`, the reference is made here out of the code.

`hook` is what mkdocs calls; each other file makes one page. Not part of the installed package.
"""

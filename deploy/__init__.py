"""How Dure is shipped: bill of materials, container file, chart, units. Not part of the installed package.

`make dist` writes what is published; `make chart` writes anew what of the chart is made out of the package itself.
"""

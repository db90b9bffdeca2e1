"""The dashboard: one page, its style and scripts, all written here and served as they are. No build step, no CDN.

`pages` are the routes; everything the page shows it reads from `/v1` like any other client. Plotly's script comes
from the installed package.
"""

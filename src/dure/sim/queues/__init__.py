"""Kueue and its Jobs in virtual time: `mix` is what arrives, `world` plays it, `optimum` knows everything ahead."""

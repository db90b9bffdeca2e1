"""Training jobs on a cluster of several accelerator types: measured profiles, a replay in rounds, known schedulers.

Called by `dure bench jct`. Pure but for reading the profiles' files, which `profile` is handed as rows.
"""

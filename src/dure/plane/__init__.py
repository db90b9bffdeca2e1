"""Central: observe -> decide -> act -> journal.

`loop` is the cycle, `fold` what reports mean for records, `observe` builds the Snapshot, `answers` serves questions
(plan, why, status), `members` is what agents talk to.
"""

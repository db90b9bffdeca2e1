"""Tells people: an outbox that survives, channels (webhook, Slack, e-mail), and the loop between them."""

"""Member cluster: applies what the plane wants, packs and binds pods, reports. Goes on when the plane is gone."""

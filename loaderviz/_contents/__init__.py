"""What samples hold: read alone, and compared with what a loader delivered of them."""

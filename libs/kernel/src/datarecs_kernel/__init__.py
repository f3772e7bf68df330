"""The comparison kernel: relations in canonical form in, counts and a stream of differences out."""

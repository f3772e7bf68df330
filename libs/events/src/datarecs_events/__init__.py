"""Facts as typed CloudEvents: catalogue, envelope, codec, schemas."""

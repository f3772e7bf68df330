"""Records in Avro: schemas of a registry, and the values that producers write by them."""

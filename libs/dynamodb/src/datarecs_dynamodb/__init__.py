"""Pointers of the catalogue in DynamoDB; the only package that imports boto3."""

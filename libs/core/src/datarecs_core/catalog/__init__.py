"""What is stored under which name: blobs, and later pointers."""

"""Row stages over many kinds of files: which combinations, their files, their true answers."""

"""run.json in, pages and mails out; pure."""

"""Makes pages, texts and mails from run.json; pure."""

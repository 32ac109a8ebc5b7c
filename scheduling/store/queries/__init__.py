"""What pages, REST and the feed read. Plain dictionaries in the shapes of the REST contract; nothing is written."""

"""What lies in the folders that somebody opened, over HTTP: runs, corpora, labelled files."""

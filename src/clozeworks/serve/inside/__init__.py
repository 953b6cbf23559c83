"""Looking inside over HTTP, and as pages that need no server."""

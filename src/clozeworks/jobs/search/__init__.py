"""Documents that are embedded, searched, compared and sorted into topics."""

"""The client of a server: a model that runs elsewhere, asked like one that is here."""

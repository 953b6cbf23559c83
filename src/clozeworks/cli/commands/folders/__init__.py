"""Commands about folders of models: new, show, verify, convert."""

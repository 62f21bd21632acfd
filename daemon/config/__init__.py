"""From a YAML file to typed settings, or to one error with every problem and its line."""

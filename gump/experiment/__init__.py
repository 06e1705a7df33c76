"""From a configuration to its records."""

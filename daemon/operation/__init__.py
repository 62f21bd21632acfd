"""The life of one operation, as pure functions of values. Imports policies."""

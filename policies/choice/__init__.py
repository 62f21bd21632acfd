"""The choice on shared nodes: which nodes an urgent job gets, which jobs leave for it, and how."""

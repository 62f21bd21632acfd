"""The gate that every action of every policy passes: the limits of the site and the circuit breaker. No
policy imports it.
"""

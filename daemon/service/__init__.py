"""The process around the cycles: timing, socket, metrics, logs, systemd."""

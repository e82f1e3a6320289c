"""What the paper says of machines that nobody has trained, of costs, and what it conjectures."""

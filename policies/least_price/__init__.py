"""Policy `least-price`, makeway's own: starts on time at the least total price, up to a ceiling."""

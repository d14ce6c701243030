"""Where threads are kept. Strangers to the agents; each implements `ports.Store`."""

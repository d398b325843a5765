"""What a traced kernel costs on the device: simulated time, its causes, its roofline share."""

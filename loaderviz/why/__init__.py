"""What is concluded from a trace: its phases, and the pace that the training keeps."""

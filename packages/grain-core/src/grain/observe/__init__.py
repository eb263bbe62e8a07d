"""What a pipeline says about itself: names of operations and notes on exceptions."""

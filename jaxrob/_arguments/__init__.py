"""What is given: checks of arguments, and what errors and warnings say of them."""

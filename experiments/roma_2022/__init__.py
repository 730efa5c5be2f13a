"""Parts of `roma_cifar10.py`, the experiments of Levy and Katz (2022)."""

"""Small networks, one image at a time, float64.

Weights are a dictionary of NumPy arrays: "conv" (kernel `[3, 3, C, F]` and bias) and
"hidden" (kernel `[D, H]` and bias) if there are such layers, and "last" (kernel
`[S, D, K]`, bias `[S, K]`): S samples that share the layers below.
"""

import numpy as np


def rows_of(weights, image):
    """`[S, columns]`: what the last layer gives for one image."""
    x = np.asarray(image, np.float64)
    if "conv" in weights:
        x = np.maximum(convolution(x, *weights["conv"]), 0)
    x = x.reshape(-1)
    if "hidden" in weights:
        kernel, bias = weights["hidden"]
        x = np.maximum(x @ kernel + bias, 0)
    kernel, bias = weights["last"]
    return np.stack([x @ k + b for k, b in zip(kernel, bias)])


def convolution(image, kernel, bias):
    """Correlation with a kernel of 3 x 3, where it fits wholly."""
    height, width, _ = image.shape
    out = np.zeros((height - 2, width - 2, kernel.shape[-1]))
    kernel = kernel.reshape(-1, kernel.shape[-1])
    for i in range(height - 2):
        for j in range(width - 2):
            out[i, j] = image[i : i + 3, j : j + 3, :].reshape(-1) @ kernel + bias
    return out


def distributions(rows, outputs):
    """`[S, K]`: each sample's probabilities; of "scores" the scores themselves.

    What a network of "probabilities" or "sigmoid" returns is the softmax or the sigmoid
    of its last layer.
    """
    if outputs == "scores":
        return rows
    if outputs in ("logits", "probabilities"):
        powers = np.exp(rows - rows.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)
    assert outputs == "sigmoid"
    activations = 1 / (1 + np.exp(-rows))
    if activations.shape[-1] == 1:
        activations = np.concatenate([1 - activations, activations], -1)
    return activations / activations.sum(-1, keepdims=True)

"""A network that is a matrix, of which the tests of several rooms are."""


def linear(weights, images):
    return images.reshape(len(images), -1) @ weights

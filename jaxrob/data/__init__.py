"""Data sets as `jaxrob.Dataset`: an embedded one and readers for files on disk.

A damaged file is a ValueError that names it. Nothing is unpickled or extracted to disk.
"""

from jaxrob.data._image_folder import image_folder
from jaxrob.data._named import NAMES, cifar10, digits, idc_patches, load, mnist
from jaxrob.data._pictures import npz, slices
from jaxrob.data._tar import tar_shards

__all__ = (
    "NAMES",
    "cifar10",
    "digits",
    "idc_patches",
    "image_folder",
    "load",
    "mnist",
    "npz",
    "slices",
    "tar_shards",
)

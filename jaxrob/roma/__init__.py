"""RoMA: the probability of a distinct misclassification near each input."""

from jaxrob.roma._assess import assess
from jaxrob.roma._ball import ball
from jaxrob.roma._categorial import Categorial, compare_categories
from jaxrob.roma._estimators import ESTIMATORS
from jaxrob.roma._global import global_robustness
from jaxrob.roma._global_result import GlobalRobustness
from jaxrob.roma._inputs_needed import SampleSize, inputs_needed
from jaxrob.roma._normality import anderson_darling
from jaxrob.roma._perturbation import Perturbation
from jaxrob.roma._result import RomaResult
from jaxrob.roma._samplers import from_alteration, from_sampler
from jaxrob.roma._transform import (
    boxcox,
    boxcox_lambda,
)

__all__ = (
    "ESTIMATORS",
    "Categorial",
    "GlobalRobustness",
    "Perturbation",
    "RomaResult",
    "SampleSize",
    "anderson_darling",
    "assess",
    "ball",
    "boxcox",
    "boxcox_lambda",
    "compare_categories",
    "from_alteration",
    "from_sampler",
    "global_robustness",
    "inputs_needed",
)

"""RoMA: the probability of a distinct misclassification near each input."""

from jaxrob.roma._algorithm1 import anderson_darling, boxcox, boxcox_lambda
from jaxrob.roma._assess import assess
from jaxrob.roma._bounded_mean import SampleSize, inputs_needed
from jaxrob.roma._categorial import Categorial, compare_categories
from jaxrob.roma._estimators import ESTIMATORS
from jaxrob.roma._global_result import GlobalRobustness
from jaxrob.roma._perturbation import Perturbation, ball, from_alteration, from_sampler
from jaxrob.roma._result import RomaResult

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
    "inputs_needed",
)

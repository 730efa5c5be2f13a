"""Global robustness: a misclassification anywhere in a category (gRoMA)."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._arguments.checks import check_type, checked_integer
from jaxrob._arguments.naming import named
from jaxrob._arguments.wrapping import classifier_wanted
from jaxrob._classifier import Classifier, trace_info
from jaxrob._dataset import Dataset, given_images, images_and_labels
from jaxrob._keys import checked_key
from jaxrob.alterations import Alteration
from jaxrob.roma._assess import assess
from jaxrob.roma._global_result import GlobalRobustness, check_summary
from jaxrob.roma._perturbation import Perturbation
from jaxrob.roma._population import drawn_inputs

if TYPE_CHECKING:
    from numpyro.distributions import Distribution


def global_robustness(
    classifier: Classifier,
    images: np.ndarray | jax.Array | Dataset | Callable[[jax.Array], Any],
    labels: Sequence[int] | np.ndarray | None = None,
    *,
    num_inputs: int | None = None,
    by: str = "predicted",
    epsilon: float = 0.04,
    delta: float = 0.6,
    num_samples: int = 100,
    norm: str = "linf",
    clip: bool = False,
    estimator: str = "count",
    budget: float | None = None,
    perturbation: Perturbation | Alteration | Callable | None = None,
    level_distribution: "Distribution | None" = None,
    class_names: Sequence[str] | None = None,
    confidence_level: float = 0.95,
    jointly: bool = True,
    key: jax.Array,
    mesh: Mesh | None = None,
    journal: str | os.PathLike | None = None,
    progress: bool = False,
) -> GlobalRobustness:
    """How probable a distinct misclassification is anywhere in each category.

    The mean of the local probability (see `assess`) over the category's population of
    inputs: how probable it is that an input of the category, drawn and then perturbed
    at random, is distinctly misclassified. It is the global robustness of Levy,
    Yerushalmi and Katz (2023), "gRoMA".

    Example::

        found = jaxrob.roma.global_robustness(
            classifier, images, epsilon=0.1, class_names=names, key=jax.random.key(0)
        )
        print(found.probability)  # one for each category
        print(found.population_interval)  # 95 % for all of them together

    Each input's share of distinct misclassifications among plain draws is in [0, 1] and
    right on average, and inputs are independent. So `population_interval` holds for the
    finite sample of inputs and the finite number of draws at once. It assumes nothing
    else, and holds for any number of inputs. It is by betting (Waudby-Smith and Ramdas
    2024) and by binomial tails, and never reaches beyond Hoeffding's. It does not
    depend on the order of the inputs. With one draw each it is Clopper and Pearson's.

    The population is limited by the number of inputs: without a single hit the interval
    still ends at about 4 / N, however many draws there are, because a share 4 / N of
    the population may be unlike all inputs seen. `inputs_needed` tells how many it
    takes.

    With another estimator than "count", each input counts as anything within its own
    interval of that confidence, or within [0, 1] where it has no answer. The intervals
    then hold if those intervals enclose the probabilities on average, which is known
    from experiments alone. They are better for the mean over the inputs at hand
    (`inputs_interval`) where misclassifications are rare, and for the lower end. The
    upper end for the population cannot be.

    Args:
      classifier: the classifier, as `assess` takes it.
      images: `[N, H, W, C]`, uint8 or floating in [0, 1], a random sample from the
        population; a `jaxrob.Dataset` of them; or a pure function `fn(key)` that draws
        one image from it, or an image and its label.
      labels: `[N]` classes from 0, for `by="label"`. Not beside a data set.
      num_inputs: how many inputs a function draws.
      by: "predicted" puts inputs into categories by the class predicted at the
        unperturbed input, "label" by their label, "all" into one.
      epsilon: the radius of the ball, for pixels in [0, 1].
      delta: the least confidence of a distinct answer, in (0, 1).
      num_samples: plain draws for each input, as `assess` takes it.
        `GlobalRobustness.draws_share` tells whether more would help.
      norm: "linf", "l2" or "l1".
      clip: whether perturbed images are clipped to [0, 1].
      estimator: "count", or another one of `ESTIMATORS`. The default is not that of
        `assess`, because here plain draws are enough (see above). "roma"
        knows no intervals, so that its are [0, 1] here.
      budget: of "auto", as `assess` takes it.
      perturbation: instead of a ball, as `assess` takes it.
      level_distribution: of an alteration's level, as `assess` takes it.
      class_names: names of the categories. All of them are listed, those without an
        input with NaN; by default the data set's, or those that occur, by their
        numbers.
      confidence_level: of the intervals, at least 0.5.
      jointly: whether all categories' intervals hold together with that confidence
        (Bonferroni), or each alone.
      key: a random key.
      mesh: devices, as `assess` takes them.
      journal: a file, as `assess` takes it.
      progress: whether a progress bar is shown, and a line on standard error says how
        long the run takes, if that is over ten seconds.

    Returns:
      A `GlobalRobustness`.

    Raises:
      TypeError: if an argument has a wrong type.
      ValueError: as `assess`; if there are no labels to go by, the confidence or
        num_inputs is out of range, or a category has no name.
      OSError: if the journal cannot be read or written.
    """
    check_type("classifier", classifier, Classifier, classifier_wanted(classifier))
    if isinstance(images, Dataset) and class_names is None and by != "all":
        class_names = images.class_names
    check_summary(by, class_names, confidence_level, jointly)
    key = checked_key(key)
    if callable(images):
        images, labels, key = _drawn(images, labels, num_inputs, key)
    elif num_inputs is not None:
        raise ValueError(
            "num_inputs needs a function that draws images; got "
            f"num_inputs={named(num_inputs)} beside images={named(images)}"
        )
    if by == "label" and images_and_labels(images, labels)[1] is None:
        raise ValueError('by="label" needs labels; got labels=None')
    if class_names is not None and by != "all":
        _check_named(classifier, images, labels, class_names)
    local = assess(
        classifier,
        images,
        labels,
        epsilon=epsilon,
        delta=delta,
        num_samples=num_samples,
        norm=norm,
        clip=clip,
        estimator=estimator,
        budget=budget,
        perturbation=perturbation,
        level_distribution=level_distribution,
        confidence_level=confidence_level,
        key=key,
        mesh=mesh,
        journal=journal,
        progress=progress,
    )
    return local.global_robustness(
        by,
        source="draws" if estimator == "count" else "estimator",
        class_names=class_names,
        confidence_level=confidence_level,
        jointly=jointly,
    )


def _check_named(
    classifier: Classifier, images: Any, labels: Any, class_names: Sequence[str]
) -> None:
    """Refuses too few names, which would be seen only after all draws."""
    given = given_images(images, labels, may_lack_labels=True).images
    classes = trace_info(classifier, given.shape[1:]).num_classes
    if len(class_names) < classes:
        raise ValueError(
            f"class_names must name all {classes} classes; got {tuple(class_names)}"
        )


def _drawn(
    fn: Callable[[jax.Array], Any], labels: Any, num_inputs: Any, key: jax.Array
) -> tuple[np.ndarray, np.ndarray | None, jax.Array]:
    """Images and labels that a function draws, and the key of what follows."""
    if labels is not None:
        raise ValueError(
            f"images must be an array where there are labels; got {named(fn)}: let it "
            f"return an image and its label, without labels={named(labels)}"
        )
    num_inputs = checked_integer("num_inputs", num_inputs, at_least=1)
    of_inputs, of_draws = jax.random.split(key)
    return *drawn_inputs(fn, num_inputs, of_inputs), of_draws

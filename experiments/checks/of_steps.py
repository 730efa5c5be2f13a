"""Cases of `jaxrob.steps`."""

from checks import world
from checks.cases import Argument as A
from checks.cases import Case, case
from checks.hostile import COUNT, EMPTY, OR_NONE
from jaxrob import alterations, networks, steps


def of_steps() -> list[Case]:
    """The cases."""
    module = networks.MLP((4,), world.CLASSES)
    of_classifier = {"classifier": world.classifier(), "image_shape": (8, 8, 1)}
    sizes = {"num_images": A(2, COUNT | OR_NONE), "mesh": A(None, OR_NONE)}
    images = {"dtype": "uint8", "mesh": A(None, OR_NONE)}
    return [
        case(
            "steps.evaluation",
            steps.evaluation,
            **of_classifier,
            **sizes,
            alteration=alterations.brightness(),
            num_levels=A(2, COUNT | OR_NONE),
            dtype="uint8",
        ),
        case(
            "steps.roma",
            steps.roma,
            **of_classifier,
            **images,
            estimator="count",
            num_inputs=A(2, COUNT),
            num_samples=A(8, COUNT),
            perturbation=A(None, OR_NONE),
            rows=A(4, COUNT | OR_NONE),
        ),
        case(
            "steps.attack",
            steps.attack,
            **of_classifier,
            **sizes,
            batch_size=A(2, COUNT | OR_NONE),
        ),
        case(
            "steps.training",
            steps.training,
            module=module,
            image_shape=(8, 8, 1),
            alterations=A((), EMPTY),
            num_images=A(8, COUNT),
            batch_size=A(4, COUNT),
            optimizer=A(None, OR_NONE),
            outputs="logits",
            **images,
        ),
    ]
